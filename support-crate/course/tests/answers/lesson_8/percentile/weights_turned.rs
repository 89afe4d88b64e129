// Nearer to the one that is farther.
// wrong: the nearer one counts more
fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = percent / 100.0 * (sorted.len() - 1) as f64;
    let low = at.floor() as usize;
    let high = at.ceil() as usize;
    let part = at - low as f64;
    if low == high { sorted[low] } else { sorted[low] * part + sorted[high] * (1.0 - part) }
}
