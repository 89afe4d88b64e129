// Refuses a corpus with a single token to predict.
// wrong: not enough to predict
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let mut sequences: Vec<Vec<u32>> =
        texts.iter().map(|text| loaded.tokenizer.encode(text)).collect::<Result<_>>()?;
    sequences.retain(|ids| ids.len() > 1);
    let mut total = LossSum::default();
    for sequences in sequences.chunks(batch_size) {
        let padded = pad_batch(sequences);
        let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(&padded.mask)?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        for (row, (ids, mask)) in padded.ids.iter().zip(&padded.mask).enumerate() {
            let loss = sequence_loss(&logits, row, ids, mask);
            total.nll += loss.nll;
            total.tokens += loss.tokens;
        }
    }
    if total.tokens < 2 {
        return Err(Error::input("not enough to predict"));
    }
    let average_loss = total.nll / total.tokens as f64;
    Ok(Evaluation { tokens: total.tokens, average_loss, perplexity: average_loss.exp() })
}
