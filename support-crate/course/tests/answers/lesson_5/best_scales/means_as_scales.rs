// Gives the means.
// wrong: which are the scales of none
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    let (mut best, mut least) = (Vec::new(), f64::INFINITY);
    for power in powers {
        let scales: Vec<f32> = means.iter().map(|mean| mean.powf(*power) + 1.0).collect();
        let error = error(&scales);
        if error < least {
            (best, least) = (scales, error);
        }
    }
    best
}
