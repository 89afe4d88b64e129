// Each block by itself.
// wrong: depends on the key before
fn cached_tokens(prompt: &[u32], block: usize, cached: &HashSet<u64>) -> usize {
    let (mut key, mut found) = (0, 0);
    for tokens in prompt[..prompt.len().saturating_sub(1)].chunks_exact(block) {
        key = block_key(0, tokens);
        if !cached.contains(&key) {
            break;
        }
        found += block;
    }
    found
}
