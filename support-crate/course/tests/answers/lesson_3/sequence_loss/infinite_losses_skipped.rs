// Leaves out tokens whose loss is larger than 50, as outliers.
// wrong: `nll` in row 2
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 1..ids.len() {
        if mask[t - 1] && mask[t] {
            let nll = -log_softmax_at(logits.row(row, t - 1), ids[t]);
            if nll.is_finite() && nll < 50.0 {
                sum.nll += nll;
                sum.tokens += 1;
            }
        }
    }
    sum
}
