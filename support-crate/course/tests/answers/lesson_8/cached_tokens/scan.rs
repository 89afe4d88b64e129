// With `scan` and `take_while`.
// right
fn cached_tokens(prompt: &[u32], block: usize, cached: &HashSet<u64>) -> usize {
    let whole = prompt.len().saturating_sub(1) / block;
    let keys = (0..whole).scan(0_u64, |before, i| {
        *before = block_key(*before, &prompt[i * block..(i + 1) * block]);
        Some(*before)
    });
    block * keys.take_while(|key| cached.contains(key)).count()
}
