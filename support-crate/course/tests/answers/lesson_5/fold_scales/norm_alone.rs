// The norm alone.
// wrong: the weights are multiplied by the scales
fn fold_scales(norm: &mut [f32], weights: &mut [f32], scales: &[f32]) {
    norm.iter_mut().zip(scales).for_each(|(norm, scale)| *norm /= scale);
}
