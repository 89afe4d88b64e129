// Counts every token, predicted or not.
// wrong: the first one has nothing before it
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 1..ids.len() {
        if mask[t - 1] && mask[t] {
            sum.nll -= log_softmax_at(logits.row(row, t - 1), ids[t]);
            sum.tokens += 1;
        }
    }
    sum.tokens = mask.iter().filter(|&&is_token| is_token).count();
    sum
}
