// RMS over peak.
// wrong: the other way round
fn peak_to_rms(x: &[f32]) -> f64 {
    let peak = x.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let square: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
    let rms = (square / x.len() as f64).sqrt();
    if rms > 0.0 { rms / f64::from(peak) } else { 0.0 }
}
