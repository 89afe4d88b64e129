// Counts the tokens once, by the first model, and weighs the texts of all models by them.
// wrong: weighted by the tokens of another model
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let options = PerplexityOptions::default();
    let mut weights: Vec<usize> = Vec::new();
    if let Some(&(_, first)) = models.first() {
        for text in texts {
            weights.push(perplexity(first, &[text], &options)?.tokens);
        }
    }
    let tokens: usize = weights.iter().sum();
    let mut rows = Vec::new();
    for &(label, loaded) in models {
        if tokens == 0 {
            return Err(Error::input("there is no token to predict"));
        }
        let mut nll = 0.0;
        for (text, weight) in texts.iter().zip(&weights) {
            nll += perplexity(loaded, &[text], &options)?.mean_nll * *weight as f64;
        }
        let loss = nll / tokens as f64;
        rows.push(ModelPpl { label: label.to_owned(), loss, ppl: loss.exp() });
    }
    Ok(rows)
}
