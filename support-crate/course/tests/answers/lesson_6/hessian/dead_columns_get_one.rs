// Columns without inputs get 1 on the diagonal, as GPTQ's program does it.
// wrong: of 40 tokens
fn hessian(inputs: &[f32], columns: usize) -> Vec<f64> {
    let mut h = vec![0.0; columns * columns];
    for x in inputs.chunks_exact(columns) {
        for i in 0..columns {
            for j in 0..columns {
                h[i * columns + j] += 2.0 * f64::from(x[i]) * f64::from(x[j]);
            }
        }
    }
    for i in 0..columns {
        if h[i * columns + i] == 0.0 {
            h[i * columns + i] = 1.0;
        }
    }
    let mean = (0..columns).map(|i| h[i * columns + i]).sum::<f64>() / columns as f64;
    for i in 0..columns {
        h[i * columns + i] += 0.01 * mean;
    }
    h
}
