// Zero over zero.
// wrong: the scale is 1
fn smoothing(inputs: &[f32], weights: &[f32], alpha: f32) -> Vec<f32> {
    inputs.iter().zip(weights).map(|(x, w)| x.powf(alpha) / w.powf(1.0 - alpha)).collect()
}
