// Starts the search for the maximum at 0.0.
// wrong: a search for the largest one that begins at 0
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let mut m = 0.0_f64;
    for &z in logits {
        m = m.max(z as f64);
    }
    let mut sum = 0.0;
    for &z in logits {
        sum += (z as f64 - m).exp();
    }
    (logits[id as usize] as f64 - m) - sum.ln()
}
