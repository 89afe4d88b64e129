// Compares the logits with the token they stand at.
// wrong: the token that the model has just read
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 0..ids.len() {
        if mask[t] {
            sum.nll -= log_softmax_at(logits.row(row, t), ids[t]);
            sum.tokens += 1;
        }
    }
    sum
}
