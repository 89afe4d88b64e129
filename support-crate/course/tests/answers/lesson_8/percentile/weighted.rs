// Weights of the two neighbours.
// right
fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut v: Vec<f64> = values.iter().copied().collect();
    v.sort_by(|a, b| a.partial_cmp(b).unwrap());
    let x = (v.len() as f64 - 1.0) * percent / 100.0;
    let i = (x as usize).min(v.len() - 1);
    let w = x - i as f64;
    if i + 1 < v.len() { (1.0 - w) * v[i] + w * v[i + 1] } else { v[i] }
}
