// Scales are at least 1e-5: the authors' clamp at the end.
// wrong: scale
fn smoothing(inputs: &[f32], weights: &[f32], alpha: f32) -> Vec<f32> {
    inputs
        .iter()
        .zip(weights)
        .map(|(&x, &w)| {
            if x == 0.0 || w == 0.0 {
                1.0
            } else {
                (x.powf(alpha) / w.powf(1.0 - alpha)).max(1e-5)
            }
        })
        .collect()
}
