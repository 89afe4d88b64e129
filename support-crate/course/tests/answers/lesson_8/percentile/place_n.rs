// 100 % at place n.
// wrong: number n - 1
fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = percent / 100.0 * sorted.len() as f64;
    let (low, high) = ((place.floor() as usize).min(values.len() - 1), (place.floor() as usize + 1).min(values.len() - 1));
    sorted[low] + place.fract() * (sorted[high] - sorted[low])
}
