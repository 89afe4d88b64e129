// Reads the whole text at once.
// wrong: the tokens were guessed from the whole text
fn loss_in_windows(loaded: &Loaded, ids: &[u32], window: usize, stride: usize) -> Result<LossSum> {
    let mut sum = LossSum::default();
    if ids.len() < 2 {
        return Ok(sum);
    }
    let logits = loaded.model.forward(&TokenBatch::single(ids)?, None, LogitPositions::All)?;
    for t in 1..ids.len() {
        sum.nll -= log_softmax_at(logits.row(0, t - 1), ids[t]);
        sum.tokens += 1;
    }
    Ok(sum)
}
