// Not begun.
// not yet
fn fold_scales(norm: &mut [f32], weights: &mut [f32], scales: &[f32]) {
    todo!()
}
