// Never asks.
// wrong: the first power
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    awq_scales(means, powers[0])
}
