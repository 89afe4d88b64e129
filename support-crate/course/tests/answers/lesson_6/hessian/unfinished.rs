// Nobody has written it yet.
// not yet
fn hessian(inputs: &[f32], columns: usize) -> Vec<f64> {
    todo!()
}
