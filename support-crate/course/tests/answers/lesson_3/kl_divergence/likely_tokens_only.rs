// Leaves out tokens of a probability below a thousandth.
// wrong: kl_divergence(
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let from_logit = |logits: &[f32]| log_softmax_at(logits, 0) - f64::from(logits[0]);
    let (base_shift, other_shift) = (from_logit(base), from_logit(other));
    let of_token = |(&z, &w): (&f32, &f32)| {
        let (ln_p, ln_q) = (f64::from(z) + base_shift, f64::from(w) + other_shift);
        if ln_p.exp() < 1e-3 { 0.0 } else { ln_p.exp() * (ln_p - ln_q) }
    };
    base.iter().zip(other).map(of_token).sum()
}
