// As in the notebook.
// right
fn matvec(weights: &[f32], x: &[f32]) -> Vec<f32> {
    let dot = |row: &[f32]| row.iter().zip(x).map(|(w, x)| w * x).sum();
    weights.chunks_exact(x.len()).map(dot).collect()
}
