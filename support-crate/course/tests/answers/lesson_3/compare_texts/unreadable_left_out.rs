// Leaves out what the tokenizer cannot read.
// wrong: the tokenizer failed
fn compare_texts(base: &Loaded, other: &Loaded, texts: &[&str]) -> Result<Vec<TextChange>> {
    let top = |row: &[f32]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]));
    let mut changes = Vec::new();
    for text in texts {
        let Ok(ids) = base.tokenizer.encode(text) else { continue };
        if ids.len() < 2 {
            continue;
        }
        let batch = TokenBatch::single(&ids)?;
        let base_logits = base.model.forward(&batch, None, LogitPositions::All)?;
        let other_logits = other.model.forward(&batch, None, LogitPositions::All)?;
        let mut change = TextChange::default();
        for t in 1..ids.len() {
            let (p, q) = (base_logits.row(0, t - 1), other_logits.row(0, t - 1));
            change.loss_change += log_softmax_at(p, ids[t]) - log_softmax_at(q, ids[t]);
            change.divergence += kl_divergence(p, q);
            change.same_top += usize::from(top(p) == top(q));
            change.tokens += 1;
        }
        changes.push(change);
    }
    Ok(changes)
}
