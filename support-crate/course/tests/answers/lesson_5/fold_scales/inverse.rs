// The wrong way round.
// wrong: the norm is divided by the scales, and
fn fold_scales(norm: &mut [f32], weights: &mut [f32], scales: &[f32]) {
    norm.iter_mut().zip(scales).for_each(|(norm, scale)| *norm *= scale);
    for row in weights.chunks_exact_mut(scales.len()) {
        row.iter_mut().zip(scales).for_each(|(weight, scale)| *weight /= scale);
    }
}
