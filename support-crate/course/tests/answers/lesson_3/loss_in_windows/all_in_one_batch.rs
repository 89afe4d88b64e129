// All windows in one batch, the last one padded.
// right
fn loss_in_windows(loaded: &Loaded, ids: &[u32], window: usize, stride: usize) -> Result<LossSum> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while scored < ids.len() {
        let end = ids.len().min(start + window);
        windows.push((start, scored, end));
        (start, scored) = (start + stride, end);
    }
    if windows.is_empty() {
        return Ok(LossSum::default());
    }
    let rows: Vec<Vec<u32>> = windows.iter().map(|&(start, _, end)| ids[start..end].to_vec()).collect();
    let padded = pad_batch(&rows);
    let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(&padded.mask)?;
    let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
    let mut sum = LossSum::default();
    for (row, (start, scored, end)) in windows.into_iter().enumerate() {
        sum.nll -= (scored..end).map(|t| log_softmax_at(logits.row(row, t - 1 - start), ids[t])).sum::<f64>();
        sum.tokens += end - scored;
    }
    Ok(sum)
}
