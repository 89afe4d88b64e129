// Counts in u32, which a prompt's products do not fit.
// wrong: work(4096, 8192, 2048
fn work(m: usize, n: usize, k: usize, bits: f64) -> Work {
    let [m, n, k] = [m, n, k].map(|size| size as u32);
    let operations = m.wrapping_mul(n).wrapping_mul(k).wrapping_mul(2);
    let bytes = f64::from(n) * f64::from(k) * bits / 8.0 + 4.0 * f64::from(m) * f64::from(k + n);
    Work { operations: f64::from(operations), bytes }
}
