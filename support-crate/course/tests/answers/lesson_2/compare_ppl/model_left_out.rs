// Leaves out a model that fails.
// wrong: as if all was well
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let loss = |loaded: &Loaded| perplexity(loaded, texts, &PerplexityOptions::default()).map(|all| all.mean_nll);
    let row = |(label, loaded): &(&str, &Loaded)| {
        let loss = loss(loaded).ok()?;
        Some(ModelPpl { label: label.to_string(), loss, ppl: loss.exp() })
    };
    Ok(models.iter().filter_map(row).collect())
}
