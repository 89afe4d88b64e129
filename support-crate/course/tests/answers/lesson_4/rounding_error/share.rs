// Forgets the percent.
// wrong: multiply by 100
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value).powi(2);
    let wrong: f64 = weights.iter().zip(restored).map(|(a, b)| square(a - b)).sum();
    (wrong / weights.iter().map(|weight| square(*weight)).sum::<f64>()).sqrt()
}
