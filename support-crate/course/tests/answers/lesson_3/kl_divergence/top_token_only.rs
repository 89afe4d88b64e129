// Looks at the likeliest token only.
// wrong: kl_divergence(
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let top = (0..base.len()).max_by(|&a, &b| base[a].total_cmp(&base[b])).unwrap_or(0) as u32;
    let ln_p = log_softmax_at(base, top);
    ln_p.exp() * (ln_p - log_softmax_at(other, top))
}
