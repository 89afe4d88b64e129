// Without an end.
// wrong: the sum ends at power n
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    1.0 / (1.0 - acceptance)
}
