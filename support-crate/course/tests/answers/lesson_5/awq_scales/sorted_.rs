// Sorts.
// right
fn awq_scales(means: &[f32], power: f32) -> Vec<f32> {
    let p: Vec<f64> = means.iter().map(|&m| (m as f64).powf(power as f64).max(1e-4)).collect();
    let mut s = p.clone();
    s.sort_by(f64::total_cmp);
    let middle = s[0].sqrt() * s[s.len() - 1].sqrt();
    p.iter().map(|x| (x / middle) as f32).collect()
}
