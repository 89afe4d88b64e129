// As in the notebook.
// right
fn loss_in_windows(loaded: &Loaded, ids: &[u32], window: usize, stride: usize) -> Result<LossSum> {
    let mut sum = LossSum::default();
    for Window { read, scored } in windows(ids.len(), window, stride) {
        let batch = TokenBatch::single(&ids[read.clone()])?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        for t in scored {
            sum.nll -= log_softmax_at(logits.row(0, t - 1 - read.start), ids[t]);
            sum.tokens += 1;
        }
    }
    Ok(sum)
}
