// Means in place of sums: the number cancels.
// right
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    let n = weights.len() as f64;
    let mean_square = |values: Vec<f64>| values.iter().map(|x| x.powi(2)).sum::<f64>() / n;
    let errors = weights.iter().zip(restored).map(|(a, b)| f64::from(*a) - f64::from(*b)).collect();
    let sizes = weights.iter().map(|a| f64::from(*a)).collect();
    (mean_square(errors) / mean_square(sizes)).sqrt() * 100.0
}
