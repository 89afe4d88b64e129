// With iterators.
// right
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let losses: Vec<f64> = (1..ids.len())
        .filter(|&t| mask[t - 1] && mask[t])
        .map(|t| -log_softmax_at(logits.row(row, t - 1), ids[t]))
        .collect();
    LossSum { nll: losses.iter().sum(), tokens: losses.len() }
}
