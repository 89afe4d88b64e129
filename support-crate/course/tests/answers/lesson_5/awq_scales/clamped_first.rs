// No mean below 1e-4, in place of no power.
// wrong: the least of powers, not of means
fn awq_scales(means: &[f32], power: f32) -> Vec<f32> {
    let powers: Vec<f32> = means.iter().map(|mean| mean.max(1e-4).powf(power)).collect();
    let smallest = powers.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = powers.iter().copied().fold(0.0, f32::max);
    let middle = (smallest * largest).sqrt();
    powers.iter().map(|scale| scale / middle).collect()
}
