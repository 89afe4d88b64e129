// A stable softmax, and the logarithm of what it gives.
// wrong: became 0 before you took the logarithm
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exps: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - largest).exp()).collect();
    (exps[id as usize] / exps.iter().sum::<f64>()).ln()
}
