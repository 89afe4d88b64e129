// Returns the error as soon as one batch has no token to predict.
// wrong: it returned an error
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let mut nll = 0.0;
    let mut tokens = 0;
    for texts in texts.chunks(batch_size) {
        let ids: Vec<Vec<u32>> = texts.iter().map(|text| loaded.tokenizer.encode(text)).collect::<Result<_>>()?;
        let padded = pad_batch(&ids);
        let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(&padded.mask)?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        let mut in_batch = 0;
        for row in 0..texts.len() {
            let loss = sequence_loss(&logits, row, &padded.ids[row], &padded.mask[row]);
            nll += loss.nll;
            in_batch += loss.tokens;
        }
        if in_batch == 0 {
            return Err(Error::input("no text has a token to predict"));
        }
        tokens += in_batch;
    }
    if tokens == 0 {
        return Err(Error::input("there are no texts"));
    }
    let average_loss = nll / tokens as f64;
    Ok(Evaluation { tokens, average_loss, perplexity: average_loss.exp() })
}
