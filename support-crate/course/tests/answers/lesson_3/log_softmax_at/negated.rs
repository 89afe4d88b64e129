// Gives the loss, not the log-probability.
// wrong: the sign is wrong
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
    sum.ln() - f64::from(logits[id as usize] - largest)
}
