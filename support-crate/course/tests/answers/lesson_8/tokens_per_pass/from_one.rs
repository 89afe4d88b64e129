// Without the model's own.
// wrong: at least one
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    (1..=guesses as i32).map(|n| acceptance.powi(n)).sum()
}
