// Only the new tokens.
// wrong: the prompt is computed too
fn tokens_computed(n: usize, m: usize) -> (usize, usize) {
    (m, m * n + m * (m - 1) / 2)
}
