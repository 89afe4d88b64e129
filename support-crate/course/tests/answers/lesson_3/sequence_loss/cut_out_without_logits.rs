// Takes the text out of the row by the mask and then counts positions in what is left.
// wrong: its logits were read at the start of the row
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let text: Vec<u32> = ids.iter().zip(mask).filter(|(_, keep)| **keep).map(|(id, _)| *id).collect();
    let mut nll = 0.0;
    for t in 1..text.len() {
        nll -= log_softmax_at(logits.row(row, t - 1), text[t]);
    }
    LossSum { nll, tokens: text.len().saturating_sub(1) }
}
