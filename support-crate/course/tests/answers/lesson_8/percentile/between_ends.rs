// Between smallest and largest.
// wrong: not between the two ends
fn percentile(values: &[f64], percent: f64) -> f64 {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    low + percent / 100.0 * (high - low)
}
