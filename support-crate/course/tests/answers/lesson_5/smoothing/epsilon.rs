// Takes all that is below the machine epsilon for 0.
// wrong: scale
fn smoothing(inputs: &[f32], weights: &[f32], alpha: f32) -> Vec<f32> {
    inputs
        .iter()
        .zip(weights)
        .map(|(&x, &w)| {
            if x <= f32::EPSILON || w <= f32::EPSILON {
                1.0
            } else {
                x.powf(alpha) / w.powf(1.0 - alpha)
            }
        })
        .collect()
}
