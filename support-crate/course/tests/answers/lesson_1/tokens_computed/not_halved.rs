// Forgets to halve.
// wrong: on average half
fn tokens_computed(n: usize, m: usize) -> (usize, usize) {
    (n + m - 1, m * n + m * (m - 1))
}
