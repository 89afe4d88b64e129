// Adds up in f32 and converts at the end.
// wrong: add up in `f64`
fn hessian(inputs: &[f32], columns: usize) -> Vec<f64> {
    let mut h = vec![0.0f32; columns * columns];
    for x in inputs.chunks_exact(columns) {
        for i in 0..columns {
            for j in 0..columns {
                h[i * columns + j] += 2.0 * x[i] * x[j];
            }
        }
    }
    let mean = (0..columns).map(|i| h[i * columns + i]).sum::<f32>() / columns as f32;
    for i in 0..columns {
        h[i * columns + i] += 0.01 * mean;
    }
    h.into_iter().map(f64::from).collect()
}
