// Counts in bits.
// wrong: this is in bits
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let term = |id: u32| {
        let (ln_p, ln_q) = (log_softmax_at(base, id), log_softmax_at(other, id));
        ln_p.exp() * (ln_p - ln_q) / std::f64::consts::LN_2
    };
    (0..base.len() as u32).map(term).sum::<f64>()
}
