// Takes logits for logarithms of probabilities.
// wrong: these are differences of logits
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let term = |id: u32| log_softmax_at(base, id).exp() * f64::from(base[id as usize] - other[id as usize]);
    (0..base.len() as u32).map(term).sum()
}
