// The least is looked for from 1 on: wrong if all powers are above 1.
// wrong: scale
fn awq_scales(means: &[f32], power: f32) -> Vec<f32> {
    let raised: Vec<f32> = means.iter().map(|m| m.powf(power).max(1e-4)).collect();
    let low = raised.iter().copied().fold(1.0, f32::min);
    let high = raised.iter().copied().fold(0.0, f32::max);
    raised.iter().map(|r| r / (low * high).sqrt()).collect()
}
