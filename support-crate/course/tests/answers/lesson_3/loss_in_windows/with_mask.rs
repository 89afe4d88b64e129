// The overlap is masked, and `sequence_loss` scores the rest.
// right
fn loss_in_windows(loaded: &Loaded, ids: &[u32], window: usize, stride: usize) -> Result<LossSum> {
    let mut all = LossSum::default();
    for start in (0..ids.len()).step_by(stride) {
        let from = if start == 0 { 1 } else { start + window - stride };
        if from >= ids.len() {
            break;
        }
        let part = &ids[start..ids.len().min(start + window)];
        let logits = loaded.model.forward(&TokenBatch::single(part)?, None, LogitPositions::All)?;
        let mask: Vec<bool> = (start..start + part.len()).map(|t| t + 1 >= from).collect();
        let loss = sequence_loss(&logits, 0, part, &mask);
        all.nll += loss.nll;
        all.tokens += loss.tokens;
    }
    Ok(all)
}
