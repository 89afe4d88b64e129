// Three loops.
// right
fn hessian(inputs: &[f32], columns: usize) -> Vec<f64> {
    let tokens = inputs.len() / columns;
    let mut h = vec![0f64; columns * columns];
    for i in 0..columns {
        for j in 0..columns {
            for t in 0..tokens {
                h[i * columns + j] += 2.0 * inputs[t * columns + i] as f64 * inputs[t * columns + j] as f64;
            }
        }
    }
    let mut trace = 0.0;
    for i in 0..columns {
        trace += h[i * columns + i];
    }
    for i in 0..columns {
        h[i * columns + i] += trace / columns as f64 / 100.0;
    }
    h
}
