// Without `windows`, with the bounds in place.
// right
fn loss_in_windows(loaded: &Loaded, ids: &[u32], window: usize, stride: usize) -> Result<LossSum> {
    let mut sum = LossSum::default();
    let (mut start, mut scored) = (0, 1);
    while scored < ids.len() {
        let end = ids.len().min(start + window);
        let batch = TokenBatch::single(&ids[start..end])?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        for t in scored..end {
            sum.nll -= log_softmax_at(logits.row(0, t - 1 - start), ids[t]);
            sum.tokens += 1;
        }
        scored = end;
        start += stride;
    }
    Ok(sum)
}
