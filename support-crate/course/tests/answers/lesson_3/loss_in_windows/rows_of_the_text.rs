// Takes the row where the token stands in the text.
// wrong: count from its own beginning
fn loss_in_windows(loaded: &Loaded, ids: &[u32], window: usize, stride: usize) -> Result<LossSum> {
    let mut sum = LossSum::default();
    for Window { read, scored } in windows(ids.len(), window, stride) {
        let logits = loaded.model.forward(&TokenBatch::single(&ids[read])?, None, LogitPositions::All)?;
        for t in scored {
            sum.nll -= log_softmax_at(logits.row(0, t - 1), ids[t]);
            sum.tokens += 1;
        }
    }
    Ok(sum)
}
