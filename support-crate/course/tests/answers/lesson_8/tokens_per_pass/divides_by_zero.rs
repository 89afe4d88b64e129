// The closed form alone.
// wrong: tokens_per_pass(1, 4) is NaN
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    (1.0 - acceptance.powi(guesses as i32 + 1)) / (1.0 - acceptance)
}
