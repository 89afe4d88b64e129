// Reads only the token before.
// wrong: the tokens were guessed from one token each
fn loss_in_windows(loaded: &Loaded, ids: &[u32], window: usize, stride: usize) -> Result<LossSum> {
    let mut sum = LossSum::default();
    for pair in ids.windows(2) {
        let logits = loaded.model.forward(&TokenBatch::single(&pair[..1])?, None, LogitPositions::All)?;
        sum.nll -= log_softmax_at(logits.row(0, 0), pair[1]);
        sum.tokens += 1;
    }
    Ok(sum)
}
