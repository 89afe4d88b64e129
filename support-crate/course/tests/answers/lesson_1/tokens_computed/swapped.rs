// The two the other way round.
// wrong: the pair is (with, without)
fn tokens_computed(n: usize, m: usize) -> (usize, usize) {
    (m * n + m * (m - 1) / 2, n + m - 1)
}
