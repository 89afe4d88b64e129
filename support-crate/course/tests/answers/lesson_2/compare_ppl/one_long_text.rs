// Joins the texts to a single one, so that every token counts the same.
// wrong: all texts joined into one
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let joined = texts.join("\n\n");
    let mut rows = Vec::new();
    for (label, loaded) in models {
        let result = perplexity(loaded, &[joined.as_str()], &PerplexityOptions::default())?;
        rows.push(ModelPpl { label: label.to_string(), loss: result.mean_nll, ppl: result.perplexity });
    }
    Ok(rows)
}
