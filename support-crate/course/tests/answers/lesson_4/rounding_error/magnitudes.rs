// Adds up magnitudes.
// wrong: these are magnitudes
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    let wrong: f64 = weights.iter().zip(restored).map(|(a, b)| f64::from((a - b).abs())).sum();
    100.0 * wrong / weights.iter().map(|weight| f64::from(weight.abs())).sum::<f64>()
}
