// Weights with the other model's probabilities.
// wrong: the weight is p, not q
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let term = |id: u32| {
        let (ln_p, ln_q) = (log_softmax_at(base, id), log_softmax_at(other, id));
        ln_q.exp() * (ln_p - ln_q)
    };
    (0..base.len() as u32).map(term).sum::<f64>()
}
