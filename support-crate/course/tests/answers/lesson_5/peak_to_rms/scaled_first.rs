// Divides by the peak first.
// right
fn peak_to_rms(x: &[f32]) -> f64 {
    let peak = f64::from(x.iter().fold(0.0f32, |a, b| a.max(b.abs())));
    if peak == 0.0 { return 0.0 }
    let part: f64 = x.iter().map(|v| (f64::from(*v) / peak).powi(2)).sum();
    (x.len() as f64 / part).sqrt()
}
