// Counts one less than there are tokens, even if there are none.
// wrong: it panicked
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 1..ids.len() {
        if mask[t - 1] && mask[t] {
            sum.nll -= log_softmax_at(logits.row(row, t - 1), ids[t]);
            sum.tokens += 1;
        }
    }
    sum.tokens = mask.iter().filter(|&&is_token| is_token).count() - 1;
    sum
}
