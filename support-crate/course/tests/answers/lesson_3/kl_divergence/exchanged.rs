// Takes the other model for the truth.
// wrong: base and other are swapped
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let term = |id: u32| {
        let (ln_p, ln_q) = (log_softmax_at(base, id), log_softmax_at(other, id));
        ln_q.exp() * (ln_q - ln_p)
    };
    (0..base.len() as u32).map(term).sum::<f64>()
}
