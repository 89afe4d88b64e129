// Takes two tokens at a time, and loses the last of an odd number.
// wrong: of 3 tokens
fn hessian(inputs: &[f32], columns: usize) -> Vec<f64> {
    let mut h = vec![0.0; columns * columns];
    for pair in inputs.chunks_exact(2 * columns) {
        let (a, b) = pair.split_at(columns);
        for i in 0..columns {
            for j in 0..columns {
                let both = f64::from(a[i]) * f64::from(a[j]) + f64::from(b[i]) * f64::from(b[j]);
                h[i * columns + j] += 2.0 * both;
            }
        }
    }
    let mean = (0..columns).map(|i| h[i * columns + i]).sum::<f64>() / columns as f64;
    for i in 0..columns {
        h[i * columns + i] += 0.01 * mean;
    }
    h
}
