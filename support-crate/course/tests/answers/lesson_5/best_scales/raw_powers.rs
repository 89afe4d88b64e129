// The error is asked of means to the power, before they lie around 1.
// wrong: scales of none of the powers
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    let mut best = Vec::new();
    let mut least = f64::INFINITY;
    for &power in powers {
        let raised: Vec<f32> = means.iter().map(|m| m.powf(power).max(1e-4)).collect();
        let now = error(&raised);
        if now < least {
            least = now;
            best = awq_scales(means, power);
        }
    }
    best
}
