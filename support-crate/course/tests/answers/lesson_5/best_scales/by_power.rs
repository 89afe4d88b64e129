// Keeps the power.
// right
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    let mut best = powers[0];
    for &p in &powers[1..] {
        if error(&awq_scales(means, p)) < error(&awq_scales(means, best)) {
            best = p;
        }
    }
    awq_scales(means, best)
}
