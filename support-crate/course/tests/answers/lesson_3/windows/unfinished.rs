// As it comes.
// not yet
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    todo!()
}
