// Counts the tokens of each pass.
// right
fn tokens_computed(n: usize, m: usize) -> (usize, usize) {
    let with = n + (1..m).count();
    let without = (0..m).map(|made| n + made).sum();
    (with, without)
}
