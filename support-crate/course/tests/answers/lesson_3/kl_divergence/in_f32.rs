// In single precision, leaving out what has no probability.
// right
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    fn log_softmax(logits: &[f32]) -> Vec<f32> {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let log_sum = logits.iter().map(|z| (z - largest).exp()).sum::<f32>().ln();
        logits.iter().map(|z| z - largest - log_sum).collect()
    }
    let (p, q) = (log_softmax(base), log_softmax(other));
    let mut sum = 0.0_f32;
    for i in 0..p.len() {
        if p[i].exp() == 0.0 {
            continue;
        }
        sum += p[i].exp() * (p[i] - q[i]);
    }
    f64::from(sum.max(0.0))
}
