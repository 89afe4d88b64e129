// From the inside.
// right
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    (0..guesses).fold(1.0, |mean, _| 1.0 + acceptance * mean)
}
