// Looks once.
// wrong: look again
fn evicted(blocks: &[CachedBlock], count: usize) -> Vec<u64> {
    let is_last = |block: &CachedBlock| !blocks.iter().any(|other| other.before == block.key);
    let mut free: Vec<CachedBlock> = blocks.iter().filter(|b| b.users == 0 && is_last(b)).copied().collect();
    free.sort_by_key(|b| b.last_used);
    free.iter().take(count).map(|b| b.key).collect()
}
