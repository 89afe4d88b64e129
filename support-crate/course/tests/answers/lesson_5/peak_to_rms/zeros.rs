// Divides 0 by 0.
// wrong: the answer is 0
fn peak_to_rms(x: &[f32]) -> f64 {
    let peak = x.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let square: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum();
    let rms = (square / x.len() as f64).sqrt();
    f64::from(peak) / rms
}
