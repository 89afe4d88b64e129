// A single number counts as too few to say anything.
// wrong: the ratio is 0, expected 1
fn peak_to_rms(x: &[f32]) -> f64 {
    if x.len() < 2 {
        return 0.0;
    }
    let sum = x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
    let peak = x.iter().map(|&x| f64::from(x).abs()).fold(0.0, f64::max);
    if sum > 0.0 { peak / (sum / x.len() as f64).sqrt() } else { 0.0 }
}
