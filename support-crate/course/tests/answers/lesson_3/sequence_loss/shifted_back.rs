// Shifts in the other direction.
// wrong: the shift goes the wrong way
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 1..ids.len() {
        if mask[t - 1] && mask[t] {
            sum.nll -= log_softmax_at(logits.row(row, t), ids[t - 1]);
            sum.tokens += 1;
        }
    }
    sum
}
