// Leaves all logits equal to the maximum out of the sum and lets ln_1p add one of them again.
// wrong: log_softmax_at([2.0, 0.5, 2.0], 0) is
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let m = logits.iter().copied().max_by(f32::total_cmp).unwrap();
    let rest: f64 = logits.iter().filter(|&&z| z != m).map(|&z| f64::from(z - m).exp()).sum();
    f64::from(logits[id as usize] - m) - rest.ln_1p()
}
