// Squares the sum of the errors.
// wrong: of opposite signs, they cancel
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    let wrong: f64 = weights.iter().zip(restored).map(|(a, b)| f64::from(a - b)).sum();
    100.0 * (wrong.powi(2) / weights.iter().map(|weight| f64::from(*weight).powi(2)).sum::<f64>()).sqrt()
}
