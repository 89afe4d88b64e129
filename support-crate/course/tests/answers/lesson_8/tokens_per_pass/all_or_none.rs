// All or nothing.
// wrong: only some guesses are right
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    1.0 + guesses as f64 * acceptance.powi(guesses as i32)
}
