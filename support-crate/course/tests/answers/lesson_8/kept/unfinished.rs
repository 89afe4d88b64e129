// Not begun.
// not yet
fn kept(guesses: &[u32], choices: &[u32]) -> Vec<u32> {
    todo!()
}
