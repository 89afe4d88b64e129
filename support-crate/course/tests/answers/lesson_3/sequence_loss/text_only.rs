// Cuts the text out of its padding first.
// right
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let start = mask.iter().position(|&is_token| is_token).unwrap_or(0);
    let length = mask.iter().filter(|&&is_token| is_token).count();
    let mut nll = 0.0_f32;
    for t in start..(start + length).saturating_sub(1) {
        nll -= log_softmax_at(logits.row(row, t), ids[t + 1]) as f32;
    }
    LossSum { nll: f64::from(nll), tokens: length.saturating_sub(1) }
}
