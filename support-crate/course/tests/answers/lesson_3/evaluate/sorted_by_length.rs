// Puts texts of similar lengths together, and leaves out what predicts nothing.
// right
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let mut sequences = Vec::new();
    for text in texts {
        let ids = loaded.tokenizer.encode(text)?;
        if ids.len() > 1 {
            sequences.push(ids);
        }
    }
    if sequences.is_empty() {
        return Err(Error::input("nothing to predict"));
    }
    sequences.sort_by_key(|ids| std::cmp::Reverse(ids.len()));
    let (mut nll, mut tokens) = (0.0, 0);
    for chunk in sequences.chunks(batch_size) {
        let padded = pad_batch(chunk);
        let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(&padded.mask)?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        for row in 0..chunk.len() {
            let loss = sequence_loss(&logits, row, &padded.ids[row], &padded.mask[row]);
            nll += loss.nll;
            tokens += loss.tokens;
        }
    }
    let average_loss = nll / tokens as f64;
    Ok(Evaluation { tokens, average_loss, perplexity: f64::exp(average_loss) })
}
