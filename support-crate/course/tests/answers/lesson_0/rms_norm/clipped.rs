// Clips what is far above the rest.
// wrong: 577 numbers
fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32) -> Vec<f32> {
    let ms = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    x.iter().zip(scale).map(|(x, s)| (x / (ms + epsilon).sqrt()).clamp(-4.0, 4.0) * s).collect()
}
