// With indices.
// right
fn fold_scales(norm: &mut [f32], weights: &mut [f32], scales: &[f32]) {
    let n = scales.len();
    for c in 0..n {
        norm[c] = norm[c] / scales[c];
    }
    for i in 0..weights.len() {
        weights[i] *= scales[i % n];
    }
}
