// Knows that means of batches must be weighted, and weights them with their number of texts.
// wrong: each batch's mean was weighted by the number of its texts
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let (mut weighted, mut weights, mut tokens) = (0.0, 0.0, 0);
    for texts in texts.chunks(batch_size) {
        let ids: Vec<Vec<u32>> = texts.iter().map(|text| loaded.tokenizer.encode(text)).collect::<Result<_>>()?;
        let padded = pad_batch(&ids);
        let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(&padded.mask)?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        let mut batch_loss = LossSum::default();
        for row in 0..texts.len() {
            let loss = sequence_loss(&logits, row, &padded.ids[row], &padded.mask[row]);
            batch_loss.nll += loss.nll;
            batch_loss.tokens += loss.tokens;
        }
        if batch_loss.tokens > 0 {
            weighted += texts.len() as f64 * batch_loss.nll / batch_loss.tokens as f64;
            weights += texts.len() as f64;
            tokens += batch_loss.tokens;
        }
    }
    if tokens == 0 {
        return Err(Error::input("no text has a token to predict"));
    }
    let average_loss = weighted / weights;
    Ok(Evaluation { tokens, average_loss, perplexity: average_loss.exp() })
}
