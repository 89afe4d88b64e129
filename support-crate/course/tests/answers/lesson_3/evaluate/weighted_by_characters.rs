// Weights each text's loss with its characters.
// wrong: weighted by its length in characters
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let mut all = Vec::new();
    for text in texts {
        let ids = loaded.tokenizer.encode(text)?;
        if ids.len() > 1 {
            all.push((ids, text.chars().count()));
        }
    }
    let (mut nll, mut weight, mut tokens) = (0.0, 0, 0);
    for part in all.chunks(batch_size) {
        let padded = pad_batch(&part.iter().map(|(ids, _)| ids.clone()).collect::<Vec<_>>());
        let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(&padded.mask)?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        for (row, (_, characters)) in part.iter().enumerate() {
            let loss = sequence_loss(&logits, row, &padded.ids[row], &padded.mask[row]);
            nll += loss.mean() * *characters as f64;
            weight += characters;
            tokens += loss.tokens;
        }
    }
    if tokens == 0 {
        return Err(Error::input("no text has a token to predict"));
    }
    let average_loss = nll / weight as f64;
    Ok(Evaluation { tokens, average_loss, perplexity: average_loss.exp() })
}
