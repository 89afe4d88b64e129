// Takes everything below 1e-6 for rounding and returns 0, although only equal rows have 0.
// wrong: only equal predictions are 0 apart
fn log_probabilities(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().map(|&z| f64::from(z)).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|&z| (f64::from(z) - max).exp()).sum();
    let shift = max + sum.ln();
    logits.iter().map(|&z| f64::from(z) - shift).collect()
}
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let (ln_p, ln_q) = (log_probabilities(base), log_probabilities(other));
    let sum: f64 = ln_p.iter().zip(&ln_q).map(|(p, q)| p.exp() * (p - q)).sum();
    if sum < 1e-6 { 0.0 } else { sum }
}
