// Takes the mean over the vocabulary.
// wrong: the weights p already make it a mean
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let term = |id: u32| {
        let (ln_p, ln_q) = (log_softmax_at(base, id), log_softmax_at(other, id));
        ln_p.exp() * (ln_p - ln_q)
    };
    (0..base.len() as u32).map(term).sum::<f64>() / base.len() as f64
}
