// Weights the means of the batches with their tokens; each text is checked for something to predict.
// right
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    let (mut average_loss, mut tokens) = (0.0, 0);
    for texts in texts.chunks(batch_size) {
        let sequences = texts.iter().map(|text| loaded.tokenizer.encode(text)).collect::<Result<Vec<_>>>()?;
        if sequences.iter().all(|ids| ids.is_empty()) {
            continue;
        }
        let PaddedBatch { ids, mask } = pad_batch(&sequences);
        let logits = loaded.model.forward(&TokenBatch::new(&ids)?.with_attention_mask(&mask)?, None, LogitPositions::All)?;
        let losses: Vec<LossSum> = (0..ids.len()).map(|row| sequence_loss(&logits, row, &ids[row], &mask[row])).collect();
        let batch_tokens: usize = losses.iter().map(|loss| loss.tokens).sum();
        if batch_tokens == 0 {
            continue;
        }
        let batch_mean = losses.iter().map(|loss| loss.nll).sum::<f64>() / batch_tokens as f64;
        let weight = batch_tokens as f64 / (tokens + batch_tokens) as f64;
        average_loss += weight * (batch_mean - average_loss);
        tokens += batch_tokens;
    }
    match tokens {
        0 => Err(Error::input("give a text of at least two tokens")),
        _ => Ok(Evaluation { tokens, average_loss, perplexity: std::f64::consts::E.powf(average_loss) }),
    }
}
