// Divides by the size of the restored weights.
// wrong: not of the restored ones
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value).powi(2);
    let wrong: f64 = weights.iter().zip(restored).map(|(a, b)| square(a - b)).sum();
    100.0 * (wrong / restored.iter().map(|weight| square(*weight)).sum::<f64>()).sqrt()
}
