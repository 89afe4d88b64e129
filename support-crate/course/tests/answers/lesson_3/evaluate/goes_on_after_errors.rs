// Skips a batch whose forward pass fails, so that one long text does not stop the evaluation.
// wrong: as if nothing had happened
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let mut sum = LossSum::default();
    for texts in texts.chunks(batch_size) {
        let ids: Vec<Vec<u32>> = texts.iter().map(|text| loaded.tokenizer.encode(text)).collect::<Result<_>>()?;
        let padded = pad_batch(&ids);
        let Ok(batch) = TokenBatch::new(&padded.ids) else { continue };
        let batch = batch.with_attention_mask(&padded.mask)?;
        if let Ok(logits) = loaded.model.forward(&batch, None, LogitPositions::All) {
            for row in 0..texts.len() {
                let loss = sequence_loss(&logits, row, &padded.ids[row], &padded.mask[row]);
                sum.nll += loss.nll;
                sum.tokens += loss.tokens;
            }
        }
    }
    if sum.tokens == 0 {
        return Err(Error::input("no text has a token to predict"));
    }
    let average_loss = sum.nll / sum.tokens as f64;
    Ok(Evaluation { tokens: sum.tokens, average_loss, perplexity: average_loss.exp() })
}
