// Sets the two sums to zero once, before the loop over the models.
// wrong: the loss of "int8" over all tokens is
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let options = PerplexityOptions::default();
    let mut total = 0.0;
    let mut tokens = 0;
    let mut rows = Vec::new();
    for (label, loaded) in models {
        for text in texts {
            let result = perplexity(loaded, &[text], &options)?;
            total += result.mean_nll * result.tokens as f64;
            tokens += result.tokens;
        }
        let loss = total / tokens as f64;
        rows.push(ModelPpl { label: label.to_string(), loss, ppl: loss.exp() });
    }
    Ok(rows)
}
