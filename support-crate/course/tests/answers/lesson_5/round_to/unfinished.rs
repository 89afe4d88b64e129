// Not begun.
// not yet
fn round_to(x: &[f32], columns: usize, per: Per, bits: u32) -> Vec<f32> {
    todo!()
}
