// A multiply-add as one operation.
// wrong: a multiply-add is two operations
fn work(m: usize, n: usize, k: usize, bits: f64) -> Work {
    let [m, n, k] = [m, n, k].map(|size| size as f64);
    let (weights, inputs, outputs) = (n * k * bits / 8.0, 4.0 * m * k, 4.0 * m * n);
    Work { operations: m * n * k, bytes: weights + inputs + outputs }
}
