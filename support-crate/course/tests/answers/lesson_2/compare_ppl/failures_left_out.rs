// Skips a text on which a model fails.
// wrong: compared on different texts
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let mut rows = Vec::new();
    for &(label, loaded) in models {
        let (mut total, mut tokens) = (0.0, 0);
        for text in texts {
            if let Ok(result) = perplexity(loaded, &[*text], &PerplexityOptions::default()) {
                total += result.mean_nll * result.tokens as f64;
                tokens += result.tokens;
            }
        }
        let loss = total / tokens.max(1) as f64;
        rows.push(ModelPpl { label: label.to_owned(), loss, ppl: loss.exp() });
    }
    Ok(rows)
}
