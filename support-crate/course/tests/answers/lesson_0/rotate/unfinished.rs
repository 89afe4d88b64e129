// Nobody has written it yet.
// not yet
fn rotate(head: &mut [f32], position: usize, base: f32) {
    todo!()
}
