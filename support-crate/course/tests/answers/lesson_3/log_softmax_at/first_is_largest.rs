// Subtracts the first logit instead of the largest one.
// wrong: exp of a logit became infinite. Subtract the largest of all logits
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let largest = logits[0];
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
    f64::from(logits[id as usize] - largest) - sum.ln()
}
