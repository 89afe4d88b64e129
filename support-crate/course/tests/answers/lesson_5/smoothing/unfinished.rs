// Not begun.
// not yet
fn smoothing(inputs: &[f32], weights: &[f32], alpha: f32) -> Vec<f32> {
    todo!()
}
