// The products, not added up.
// wrong: are expected
fn matvec(weights: &[f32], x: &[f32]) -> Vec<f32> {
    weights.chunks_exact(x.len()).flat_map(|row| row.iter().zip(x).map(|(w, x)| w * x).collect::<Vec<_>>()).collect()
}
