// Takes the epsilon of one model for all.
// wrong: number
fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32) -> Vec<f32> {
    let square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    let root = (square + 1e-5).sqrt();
    x.iter().zip(scale).map(|(x, scale)| x / root * scale).collect()
}
