// Walks over the texts with start and end, checks its arguments, and skips a batch in which there is no token at all.
// right
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    if batch_size == 0 {
        return Err(Error::input("a batch has at least one text"));
    }
    let mut nll_sum = 0.0_f64;
    let mut token_sum = 0_usize;
    let mut start = 0;
    while start < texts.len() {
        let end = usize::min(start + batch_size, texts.len());
        let mut sequences = Vec::new();
        for i in start..end {
            sequences.push(loaded.tokenizer.encode(texts[i])?);
        }
        start = end;
        if sequences.iter().all(|sequence| sequence.is_empty()) {
            continue;
        }
        let padded = pad_batch(&sequences);
        let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(&padded.mask)?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        for row in 0..padded.ids.len() {
            let LossSum { nll, tokens } = sequence_loss(&logits, row, &padded.ids[row], &padded.mask[row]);
            nll_sum += nll;
            token_sum += tokens;
        }
    }
    if token_sum == 0 {
        return Err(Error::input("no text has a token to predict"));
    }
    let average_loss = nll_sum / token_sum as f64;
    Ok(Evaluation { tokens: token_sum, average_loss, perplexity: average_loss.exp() })
}
