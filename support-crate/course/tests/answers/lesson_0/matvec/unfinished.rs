// Nobody has written it yet.
// not yet
fn matvec(weights: &[f32], x: &[f32]) -> Vec<f32> {
    todo!()
}
