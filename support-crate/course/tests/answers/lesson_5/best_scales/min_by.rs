// By the minimum.
// right
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    let all = powers.iter().map(|&p| awq_scales(means, p)).map(|s| (error(&s), s));
    all.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, s)| s).unwrap_or_default()
}
