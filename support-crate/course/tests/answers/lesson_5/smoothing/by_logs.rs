// By logarithms.
// right
fn smoothing(inputs: &[f32], weights: &[f32], alpha: f32) -> Vec<f32> {
    let one = |x: f32, w: f32| (alpha * x.ln() - (1.0 - alpha) * w.ln()).exp();
    inputs.iter().zip(weights).map(|(&x, &w)| if x * w == 0.0 { 1.0 } else { one(x, w) }).collect()
}
