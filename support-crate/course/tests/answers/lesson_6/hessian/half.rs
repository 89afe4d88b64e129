// One half, then mirrored.
// right
fn hessian(inputs: &[f32], columns: usize) -> Vec<f64> {
    let n = columns;
    let mut h = vec![0.0; n * n];
    for x in inputs.chunks(n) {
        for i in 0..n {
            for j in 0..=i {
                h[i * n + j] += 2.0 * f64::from(x[i]) * f64::from(x[j]);
            }
        }
    }
    let mean: f64 = h.iter().step_by(n + 1).sum::<f64>() / n as f64;
    for i in 0..n {
        for j in 0..i {
            h[j * n + i] = h[i * n + j];
        }
        h[i * n + i] += 0.01 * mean;
    }
    h
}
