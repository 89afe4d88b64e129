// Divides by the mean square.
// wrong: take its root
fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32) -> Vec<f32> {
    let square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    let root = square + epsilon;
    x.iter().zip(scale).map(|(x, scale)| x / root * scale).collect()
}
