// Finds the index of the largest logit and adds up only the others, with ln_1p for the 1 of the largest.
// right
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let mut top = 0;
    for j in 1..logits.len() {
        if logits[j] > logits[top] {
            top = j;
        }
    }
    let m = logits[top] as f64;
    let mut others = 0.0;
    for (j, &z) in logits.iter().enumerate() {
        if j != top {
            others += (z as f64 - m).exp();
        }
    }
    (logits[id as usize] as f64 - m) - f64::ln_1p(others)
}
