// Takes the logarithm of the sum to base 2 and leaves the rest in nats.
// wrong: the logarithm of the sum is to base 2
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let m = logits.iter().map(|&z| f64::from(z)).fold(f64::NEG_INFINITY, f64::max);
    let sum = logits.iter().map(|&z| (f64::from(z) - m).exp()).sum::<f64>();
    f64::from(logits[id as usize]) - m - sum.log2()
}
