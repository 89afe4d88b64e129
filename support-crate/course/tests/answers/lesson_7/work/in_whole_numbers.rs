// Counts in whole numbers.
// right
fn work(m: usize, n: usize, k: usize, bits: f64) -> Work {
    let outputs = m * n;
    Work { operations: (2 * outputs * k) as f64, bytes: (n * k) as f64 * bits / 8.0 + (4 * (m * k + outputs)) as f64 }
}
