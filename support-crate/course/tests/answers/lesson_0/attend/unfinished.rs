// Nobody has written it yet.
// not yet
fn attend(q: &[f32], keys: &[f32], values: &[f32], position: usize, shape: &Shape) -> Vec<f32> {
    todo!()
}
