// Takes the limit too early.
// wrong: tokens_per_pass(0.9999, 30)
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    if acceptance > 0.99 {
        return guesses as f64 + 1.0;
    }
    (1.0 - acceptance.powi(guesses as i32 + 1)) / (1.0 - acceptance)
}
