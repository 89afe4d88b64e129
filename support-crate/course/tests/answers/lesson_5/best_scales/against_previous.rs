// Compares with the power before, not with the best so far.
// wrong: keep the best
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    let mut best = awq_scales(means, powers[0]);
    let mut before = error(&best);
    for &power in &powers[1..] {
        let scales = awq_scales(means, power);
        let now = error(&scales);
        if now < before {
            best = scales;
        }
        before = now;
    }
    best
}
