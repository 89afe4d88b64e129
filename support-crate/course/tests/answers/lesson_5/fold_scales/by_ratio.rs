// Weights by the old norm over the new one: NaN where the norm has a scale of 0.
// wrong: a scale of the norm may be 0
fn fold_scales(norm: &mut [f32], weights: &mut [f32], scales: &[f32]) {
    let before = norm.to_vec();
    norm.iter_mut().zip(scales).for_each(|(g, s)| *g /= s);
    let gain: Vec<f32> = before.iter().zip(norm.iter()).map(|(old, new)| old / new).collect();
    weights.iter_mut().zip(gain.iter().cycle()).for_each(|(w, gain)| *w *= gain);
}
