// Keeps the largest.
// wrong: largest error
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    let (mut best, mut least) = (Vec::new(), f64::NEG_INFINITY);
    for power in powers {
        let scales = awq_scales(means, *power);
        let error = error(&scales);
        if error > least {
            (best, least) = (scales, error);
        }
    }
    best
}
