// Divides by the root of the sum.
// wrong: RMS is the root of their *mean*
fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32) -> Vec<f32> {
    let square = x.iter().map(|x| x * x).sum::<f32>();
    let root = (square + epsilon).sqrt();
    x.iter().zip(scale).map(|(x, scale)| x / root * scale).collect()
}
