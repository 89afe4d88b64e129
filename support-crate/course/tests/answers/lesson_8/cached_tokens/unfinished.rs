// Not begun.
// not yet
fn cached_tokens(prompt: &[u32], block: usize, cached: &HashSet<u64>) -> usize {
    todo!()
}
