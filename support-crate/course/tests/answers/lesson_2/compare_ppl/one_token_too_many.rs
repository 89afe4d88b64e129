// Weights each text by the length of its ids.
// wrong: of which the first is not predicted
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    models
        .iter()
        .map(|&(label, loaded)| {
            let mut sum = 0.0;
            let mut count = 0;
            for text in texts {
                let n = loaded.tokenizer.encode(text)?.len();
                sum += perplexity(loaded, &[text], &PerplexityOptions::default())?.mean_nll * n as f64;
                count += n;
            }
            let loss = sum / count as f64;
            Ok(ModelPpl { label: label.to_owned(), loss, ppl: loss.exp() })
        })
        .collect()
}
