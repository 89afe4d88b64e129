// Pads on the left and does not tell the model.
// wrong: `average_loss` of
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let mut total = LossSum::default();
    for texts in texts.chunks(batch_size) {
        let sequences: Vec<Vec<u32>> = texts.iter().map(|text| loaded.tokenizer.encode(text)).collect::<Result<_>>()?;
        let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
        let padding = |ids: &Vec<u32>| longest - ids.len();
        let padded = PaddedBatch {
            ids: sequences.iter().map(|ids| [vec![0; padding(ids)], ids.clone()].concat()).collect(),
            mask: sequences.iter().map(|ids| (0..longest).map(|t| t >= padding(ids)).collect()).collect(),
        };
        let batch = TokenBatch::new(&padded.ids)?;
        let logits = loaded.model.forward(&batch, None, LogitPositions::All)?;
        for (row, (ids, mask)) in padded.ids.iter().zip(&padded.mask).enumerate() {
            let loss = sequence_loss(&logits, row, ids, mask);
            total.nll += loss.nll;
            total.tokens += loss.tokens;
        }
    }
    if total.tokens == 0 {
        return Err(Error::input("no text has a token to predict"));
    }
    let average_loss = total.nll / total.tokens as f64;
    Ok(Evaluation { tokens: total.tokens, average_loss, perplexity: average_loss.exp() })
}
