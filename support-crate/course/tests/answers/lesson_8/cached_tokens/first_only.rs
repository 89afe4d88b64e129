// Stops after one.
// wrong: others may be there
fn cached_tokens(prompt: &[u32], block: usize, cached: &HashSet<u64>) -> usize {
    let (mut key, mut found) = (0, 0);
    for tokens in prompt[..prompt.len().saturating_sub(1)].chunks_exact(block) {
        key = block_key(key, tokens);
        if !cached.contains(&key) {
            break;
        }
        return block;
    }
    found
}
