// Gives the mean of the text.
// wrong: take the mean only when all texts are there
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 1..ids.len() {
        if mask[t - 1] && mask[t] {
            sum.nll -= log_softmax_at(logits.row(row, t - 1), ids[t]);
            sum.tokens += 1;
        }
    }
    LossSum { nll: sum.nll / sum.tokens as f64, ..sum }
}
