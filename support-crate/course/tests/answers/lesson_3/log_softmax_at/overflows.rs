// Without taking the largest logit off.
// wrong: Softmax sees only differences
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
    f64::from(logits[id as usize]) - sum.ln()
}
