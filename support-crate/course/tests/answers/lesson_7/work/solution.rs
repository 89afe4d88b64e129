// As in the notebook.
// right
fn work(m: usize, n: usize, k: usize, bits: f64) -> Work {
    let [m, n, k] = [m, n, k].map(|size| size as f64);
    let (weights, inputs, outputs) = (n * k * bits / 8.0, 4.0 * m * k, 4.0 * m * n);
    Work { operations: 2.0 * m * n * k, bytes: weights + inputs + outputs }
}
