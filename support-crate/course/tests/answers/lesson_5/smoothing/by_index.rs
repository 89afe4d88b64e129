// With an index, in f64.
// right
fn smoothing(inputs: &[f32], weights: &[f32], alpha: f32) -> Vec<f32> {
    let a = alpha as f64;
    let mut out = vec![1.0f32; inputs.len()];
    for i in 0..inputs.len() {
        if inputs[i] != 0.0 && weights[i] != 0.0 {
            out[i] = ((inputs[i] as f64).powf(a) / (weights[i] as f64).powf(1.0 - a)) as f32;
        }
    }
    out
}
