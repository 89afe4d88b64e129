// Walks forward and remembers whether the token before was text, instead of looking it up in the mask.
// right
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum { nll: 0.0, tokens: 0 };
    let mut text_before = false;
    for (t, (&id, &is_text)) in ids.iter().zip(mask.iter()).enumerate() {
        if text_before && is_text {
            let log_p = log_softmax_at(logits.row(row, t - 1), id);
            sum = LossSum { nll: sum.nll + log_p.abs(), tokens: sum.tokens + 1 };
        }
        text_before = is_text;
    }
    sum
}
