// Not started.
// not yet
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    todo!()
}
