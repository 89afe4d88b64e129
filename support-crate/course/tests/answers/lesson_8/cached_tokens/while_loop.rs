// Counts first, takes the last block away after.
// right
fn cached_tokens(prompt: &[u32], block: usize, cached: &HashSet<u64>) -> usize {
    let mut before = 0;
    let mut end = 0;
    while end + block <= prompt.len() {
        let key = block_key(before, &prompt[end..end + block]);
        if !cached.contains(&key) { break; }
        before = key;
        end += block;
    }
    if end > 0 && end == prompt.len() { end - block } else { end }
}
