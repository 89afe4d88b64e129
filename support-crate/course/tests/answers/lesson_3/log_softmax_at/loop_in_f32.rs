// With a loop, in single precision.
// right
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let mut largest = logits[0];
    for &logit in logits {
        if logit > largest {
            largest = logit;
        }
    }
    let mut sum = 0.0_f32;
    for &logit in logits {
        sum += (logit - largest).exp();
    }
    (logits[id as usize] - largest - sum.ln()) as f64
}
