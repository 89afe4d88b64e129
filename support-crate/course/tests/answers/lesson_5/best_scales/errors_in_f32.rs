// Compares errors in f32: those that differ in f64 only are ties.
// wrong: scale
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    let mut best = Vec::new();
    let mut least = f32::INFINITY;
    for &power in powers {
        let scales = awq_scales(means, power);
        let now = error(&scales) as f32;
        if now < least || best.is_empty() {
            (best, least) = (scales, now);
        }
    }
    best
}
