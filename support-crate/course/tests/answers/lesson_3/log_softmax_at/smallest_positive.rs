// Starts the search for the largest logit with the smallest positive number.
// wrong: a search for the largest one that begins at 0
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
    f64::from(logits[id as usize] - largest) - sum.ln()
}
