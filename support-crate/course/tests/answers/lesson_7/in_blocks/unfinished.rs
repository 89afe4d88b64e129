// Nobody has written it yet.
// not yet
fn in_blocks(weights: &[f32], x: &[f32], y: &mut [f32]) {
    todo!()
}
