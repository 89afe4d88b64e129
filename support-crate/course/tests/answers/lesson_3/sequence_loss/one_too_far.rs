// Scores the token after the last one.
// wrong: the first padding token was scored
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 1..ids.len() {
        if mask[t - 1] {
            sum.nll -= log_softmax_at(logits.row(row, t - 1), ids[t]);
            sum.tokens += 1;
        }
    }
    sum
}
