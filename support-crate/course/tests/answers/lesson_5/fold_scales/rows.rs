// Rows in place of columns.
// wrong: which is a *column*
fn fold_scales(norm: &mut [f32], weights: &mut [f32], scales: &[f32]) {
    norm.iter_mut().zip(scales).for_each(|(norm, scale)| *norm /= scale);
    for (row, scale) in weights.chunks_exact_mut(scales.len()).zip(scales.iter().cycle()) {
        row.iter_mut().for_each(|weight| *weight *= scale);
    }
}
