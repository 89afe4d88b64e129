// As the notebook has it.
// right
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    (0..=guesses as i32).map(|n| acceptance.powi(n)).sum()
}
