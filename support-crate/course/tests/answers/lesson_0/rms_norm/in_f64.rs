// In double precision, with a loop.
// right
fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32) -> Vec<f32> {
    let mut sum = 0f64;
    for v in x {
        sum += (*v as f64).powi(2);
    }
    let inverse = 1.0 / (sum / x.len() as f64 + epsilon as f64).sqrt();
    let mut out = Vec::with_capacity(x.len());
    for i in 0..x.len() {
        out.push((x[i] as f64 * inverse) as f32 * scale[i]);
    }
    out
}
