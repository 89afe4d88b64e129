// Subtracts the entropy from the cross-entropy.
// right
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let ids = 0..base.len() as u32;
    let p = |id| log_softmax_at(base, id).exp();
    let cross_entropy: f64 = ids.clone().map(|id| -p(id) * log_softmax_at(other, id)).sum();
    let entropy: f64 = ids.map(|id| -p(id) * log_softmax_at(base, id)).sum();
    cross_entropy - entropy
}
