// Compares errors as thousandths: close ones are told apart no more.
// wrong: scale
fn best_scales(means: &[f32], powers: &[f32], error: &dyn Fn(&[f32]) -> f64) -> Vec<f32> {
    powers
        .iter()
        .map(|&power| awq_scales(means, power))
        .min_by_key(|scales| (error(scales) * 1000.0).round() as i64)
        .unwrap_or_default()
}
