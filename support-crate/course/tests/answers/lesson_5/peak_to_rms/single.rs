// Squares in float32 overflow.
// wrong: the ratio is
fn peak_to_rms(x: &[f32]) -> f64 {
    let peak = x.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let square: f32 = x.iter().map(|x| x * x).sum();
    let rms = (square / x.len() as f32).sqrt();
    if rms > 0.0 { f64::from(peak / rms) } else { 0.0 }
}
