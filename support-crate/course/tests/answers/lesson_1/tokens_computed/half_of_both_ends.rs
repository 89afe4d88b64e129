// Mean length of a pass, times the passes.
// right
fn tokens_computed(n: usize, m: usize) -> (usize, usize) {
    let (first, last) = (n, n + m - 1);
    (last, (first + last) * m / 2)
}
