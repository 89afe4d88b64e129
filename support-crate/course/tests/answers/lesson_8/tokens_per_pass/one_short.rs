// Up to n - 1.
// wrong: powers 0 to n
fn tokens_per_pass(acceptance: f64, guesses: usize) -> f64 {
    (0..guesses as i32).map(|n| acceptance.powi(n)).sum()
}
