// Not started.
// not yet
fn quantize_affine(numbers: &[f32]) -> Result<Int8Vector> {
    todo!()
}
