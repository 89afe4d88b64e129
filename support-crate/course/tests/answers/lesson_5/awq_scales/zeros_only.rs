// Only means of 0 become 1e-4; small powers stay.
// wrong: scale
fn awq_scales(means: &[f32], power: f32) -> Vec<f32> {
    let raised: Vec<f32> =
        means.iter().map(|m| if *m == 0.0 { 1e-4 } else { m.powf(power) }).collect();
    let low = raised.iter().copied().fold(f32::INFINITY, f32::min);
    let high = raised.iter().copied().fold(0.0, f32::max);
    raised.iter().map(|r| r / (low * high).sqrt()).collect()
}
