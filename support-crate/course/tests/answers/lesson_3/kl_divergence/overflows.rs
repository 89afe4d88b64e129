// A softmax of its own, which overflows.
// wrong: softmax sees only differences within a row
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let log_sum = |logits: &[f32]| logits.iter().map(|&z| f64::from(z).exp()).sum::<f64>().ln();
    let (base_sum, other_sum) = (log_sum(base), log_sum(other));
    let term = |(&z, &w): (&f32, &f32)| {
        let (ln_p, ln_q) = (f64::from(z) - base_sum, f64::from(w) - other_sum);
        ln_p.exp() * (ln_p - ln_q)
    };
    base.iter().zip(other).map(term).sum()
}
