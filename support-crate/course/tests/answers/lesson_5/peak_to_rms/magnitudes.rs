// The mean of magnitudes.
// wrong: squares, not magnitudes
fn peak_to_rms(x: &[f32]) -> f64 {
    let peak = x.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let sum: f64 = x.iter().map(|x| f64::from(x.abs())).sum();
    let rms = sum / x.len() as f64;
    if rms > 0.0 { f64::from(peak) / rms } else { 0.0 }
}
