// A begun block counts, too.
// wrong: only whole blocks
fn cached_tokens(prompt: &[u32], block: usize, cached: &HashSet<u64>) -> usize {
    let (mut key, mut found) = (0, 0);
    for tokens in prompt[..prompt.len().saturating_sub(1)].chunks(block) {
        key = block_key(key, tokens);
        if tokens.len() == block && !cached.contains(&key) {
            break;
        }
        found += tokens.len();
    }
    found
}
