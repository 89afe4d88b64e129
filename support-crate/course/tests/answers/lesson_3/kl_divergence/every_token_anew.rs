// Goes through the row for every token.
// right
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let mut sum = 0.0;
    for id in 0..base.len() as u32 {
        let ln_p = log_softmax_at(base, id);
        sum += ln_p.exp() * (ln_p - log_softmax_at(other, id));
    }
    sum
}
