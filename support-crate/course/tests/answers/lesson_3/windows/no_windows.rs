// Nothing at all.
// wrong: there is no window
fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    Vec::new()
}
