// The logarithm of the sum first, in double precision throughout.
// right
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let logits: Vec<f64> = logits.iter().map(|&logit| logit as f64).collect();
    let largest = logits.iter().cloned().reduce(f64::max).unwrap();
    let log_sum_exp = largest + logits.iter().map(|logit| (logit - largest).exp()).sum::<f64>().ln();
    logits[id as usize] - log_sum_exp
}
