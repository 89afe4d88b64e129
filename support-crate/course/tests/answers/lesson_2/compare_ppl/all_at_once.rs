// The library averages over all texts.
// right
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    models
        .iter()
        .map(|(label, loaded)| {
            let all = perplexity(loaded, texts, &PerplexityOptions { batch_size: 1, ..PerplexityOptions::default() })?;
            Ok(ModelPpl { label: label.to_string(), loss: all.mean_nll, ppl: all.perplexity })
        })
        .collect()
}
