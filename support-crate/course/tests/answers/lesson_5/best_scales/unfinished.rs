// Not begun.
// not yet
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    todo!()
}
