// Divides by nothing.
// wrong: the squares of the weights are missing
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    let wrong: f64 = weights.iter().zip(restored).map(|(a, b)| f64::from(a - b).powi(2)).sum();
    100.0 * wrong.sqrt()
}
