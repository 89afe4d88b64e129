// Not begun.
// not yet
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    todo!()
}
