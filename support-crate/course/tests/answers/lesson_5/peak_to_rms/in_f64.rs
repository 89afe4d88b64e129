// All in f64.
// right
fn peak_to_rms(x: &[f32]) -> f64 {
    let peak = x.iter().map(|x| x.abs() as f64).fold(0.0, f64::max);
    if peak == 0.0 {
        return 0.0;
    }
    let n = x.len() as f64;
    let mean_square = x.iter().map(|&x| x as f64 * x as f64).sum::<f64>() / n;
    peak / mean_square.sqrt()
}
