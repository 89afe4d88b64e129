// Walks from the last token to the second and adds up with a counter.
// right
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut nll = 0.0;
    let mut tokens = 0;
    let mut t = ids.len();
    while t > 1 {
        t -= 1;
        if !mask[t] || !mask[t - 1] {
            continue;
        }
        nll -= log_softmax_at(logits.row(row, t - 1), ids[t]);
        tokens += 1;
    }
    LossSum { nll, tokens }
}
