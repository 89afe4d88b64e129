// Each by itself.
// wrong: only if all before it are right
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    1.0 + acceptance * guesses as f64
}
