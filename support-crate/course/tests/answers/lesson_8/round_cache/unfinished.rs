// Not begun.
// not yet
fn round_cache(numbers: &[f32], width: usize, along: Along, bits: u32) -> Vec<f32> {
    todo!()
}
