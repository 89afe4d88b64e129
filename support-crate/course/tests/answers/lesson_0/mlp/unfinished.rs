// Nobody has written it yet.
// not yet
fn mlp(x: &[f32], block: &Block) -> Vec<f32> {
    todo!()
}
