// Squares in float32: those of small numbers vanish.
// wrong: too small for an `f32`
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    let wrong: f32 = weights.iter().zip(restored).map(|(a, b)| (a - b).powi(2)).sum();
    let size: f32 = weights.iter().map(|weight| weight.powi(2)).sum();
    100.0 * f64::from((wrong / size).sqrt())
}
