// Not begun.
// not yet
fn awq_scales(means: &[f32], power: f32) -> Vec<f32> {
    todo!()
}
