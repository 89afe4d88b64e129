// Takes the matrix for (in, out).
// wrong: the matrix is (out, in) row by row
fn matvec(weights: &[f32], x: &[f32]) -> Vec<f32> {
    let out = weights.len() / x.len();
    (0..out).map(|o| (0..x.len()).map(|i| weights[i * out + o] * x[i]).sum()).collect()
}
