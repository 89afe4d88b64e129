// Averages perplexities.
// wrong: the mean of the texts' perplexities
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let mut rows = Vec::new();
    for &(label, loaded) in models {
        let (mut nll, mut tokens, mut ppl) = (0.0, 0, 0.0);
        for text in texts {
            let one = perplexity(loaded, &[text], &PerplexityOptions::default())?;
            nll += one.mean_nll * one.tokens as f64;
            tokens += one.tokens;
            ppl += one.perplexity / texts.len() as f64;
        }
        let loss = nll / tokens as f64;
        rows.push(ModelPpl { label: label.to_owned(), loss, ppl });
    }
    Ok(rows)
}
