// Forgets to halve.
// wrong: in the mean half
fn tokens_computed(n: usize, m: usize) -> (usize, usize) {
    (n + m - 1, m * n + m * (m - 1))
}
