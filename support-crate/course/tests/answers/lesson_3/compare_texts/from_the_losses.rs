// The loss of each model by `sequence_loss`, and iterators.
// right
fn compare_texts(base: &Loaded, other: &Loaded, texts: &[&str]) -> Result<Vec<TextChange>> {
    let top = |row: &[f32]| {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter().position(|&logit| logit == largest)
    };
    let of = |text: &&str| {
        let ids = other.tokenizer.encode(text)?;
        if ids.len() < 2 {
            return Ok(None);
        }
        let batch = TokenBatch::single(&ids)?;
        let p = base.model.forward(&batch, None, LogitPositions::All)?;
        let q = other.model.forward(&batch, None, LogitPositions::All)?;
        let mask = vec![true; ids.len()];
        let losses = [&p, &q].map(|logits| sequence_loss(logits, 0, &ids, &mask));
        let places = 0..ids.len() - 1;
        Ok(Some(TextChange {
            loss_change: losses[1].nll - losses[0].nll,
            divergence: places.clone().map(|t| kl_divergence(p.row(0, t), q.row(0, t))).sum(),
            same_top: places.filter(|&t| top(p.row(0, t)) == top(q.row(0, t))).count(),
            tokens: losses[0].tokens,
        }))
    };
    texts.iter().filter_map(|text| of(text).transpose()).collect()
}
