// The prompt in every pass.
// wrong: computed once only
fn tokens_computed(n: usize, m: usize) -> (usize, usize) {
    (m * n, m * n + m * (m - 1) / 2)
}
