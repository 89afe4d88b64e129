// As many numbers as x has.
// wrong: are expected
fn matvec(weights: &[f32], x: &[f32]) -> Vec<f32> {
    (0..x.len()).map(|o| (0..x.len()).map(|i| weights.get(o * x.len() + i).unwrap_or(&0.0) * x[i]).sum()).collect()
}
