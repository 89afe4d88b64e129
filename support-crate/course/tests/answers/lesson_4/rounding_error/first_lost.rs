// Leaves the first weight out of the size.
// wrong: expected
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value).powi(2);
    let wrong: f64 = weights.iter().zip(restored).map(|(a, b)| square(a - b)).sum();
    let size: f64 = weights[1..].iter().map(|weight| square(*weight)).sum();
    100.0 * (wrong / size).sqrt()
}
