// Nobody has written it yet.
// not yet
fn run_block(x: &mut [Vec<f32>], block: &Block, shape: &Shape) {
    todo!()
}
