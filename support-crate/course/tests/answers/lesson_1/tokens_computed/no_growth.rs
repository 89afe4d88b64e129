// Takes each pass for as long as the first.
// wrong: grows by a token with every pass
fn tokens_computed(n: usize, m: usize) -> (usize, usize) {
    (n + m - 1, m * n)
}
