// Shifts what was shifted already.
// wrong: it is shifted twice
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 2..ids.len() {
        if mask[t - 2] && mask[t] {
            sum.nll -= log_softmax_at(logits.row(row, t - 2), ids[t]);
            sum.tokens += 1;
        }
    }
    sum
}
