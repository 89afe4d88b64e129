// Not begun.
// not yet
fn head_bytes(tokens: usize, head_dim: usize, bits: usize) -> usize {
    todo!()
}
