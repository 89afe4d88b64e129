// Not begun.
// not yet
fn evicted(blocks: &[CachedBlock], count: usize) -> Vec<u64> {
    todo!()
}
