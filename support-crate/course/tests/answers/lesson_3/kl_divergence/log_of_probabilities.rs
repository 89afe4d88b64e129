// Takes the logarithm of the ratio of two probabilities.
// wrong: a probability became 0 before its logarithm
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let p = |logits: &[f32], id: u32| log_softmax_at(logits, id).exp();
    (0..base.len() as u32).map(|id| p(base, id) * (p(base, id) / p(other, id)).ln()).sum()
}
