// Divides by at least 1 token, so that there is never a division by zero.
// wrong: so that nobody takes it for a result
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let mut nll = 0.0;
    let mut tokens = 0;
    for texts in texts.chunks(batch_size) {
        let ids: Vec<Vec<u32>> = texts.iter().map(|text| loaded.tokenizer.encode(text)).collect::<Result<_>>()?;
        let padded = pad_batch(&ids);
        let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(&padded.mask)?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        for row in 0..texts.len() {
            let loss = sequence_loss(&logits, row, &padded.ids[row], &padded.mask[row]);
            nll += loss.nll;
            tokens += loss.tokens;
        }
    }
    let average_loss = nll / tokens.max(1) as f64;
    Ok(Evaluation { tokens, average_loss, perplexity: average_loss.exp() })
}
