// Keeps the logarithm away from 0 by a small number.
// wrong: expected 2000
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let p = |logits: &[f32], id: u32| log_softmax_at(logits, id).exp() + 1e-10;
    (0..base.len() as u32).map(|id| p(base, id) * (p(base, id) / p(other, id)).ln()).sum()
}
