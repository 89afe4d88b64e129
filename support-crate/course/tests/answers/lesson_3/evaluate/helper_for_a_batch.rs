// Has a helper that returns the losses of one batch, and adds them all up at the end.
// right
fn losses_of_batch(loaded: &Loaded, texts: &[&str]) -> Result<Vec<LossSum>> {
    let sequences = texts.iter().map(|text| loaded.tokenizer.encode(text)).collect::<Result<Vec<_>>>()?;
    let padded = pad_batch(&sequences);
    if padded.ids.concat().is_empty() {
        return Ok(vec![]);
    }
    let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(&padded.mask)?;
    let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
    Ok((0..texts.len()).map(|row| sequence_loss(&logits, row, &padded.ids[row], &padded.mask[row])).collect())
}

fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let mut losses = Vec::new();
    for batch in texts.chunks(batch_size) {
        losses.append(&mut losses_of_batch(loaded, batch)?);
    }
    let tokens: usize = losses.iter().map(|loss| loss.tokens).sum();
    if tokens == 0 {
        return Err(Error::input("there is no token to predict in these texts"));
    }
    // Every text's mean, weighted with its number of tokens.
    let average_loss = losses
        .iter()
        .filter(|loss| loss.tokens > 0)
        .map(|loss| (loss.nll / loss.tokens as f64) * (loss.tokens as f64 / tokens as f64))
        .sum::<f64>();
    Ok(Evaluation { tokens, average_loss, perplexity: average_loss.exp() })
}
