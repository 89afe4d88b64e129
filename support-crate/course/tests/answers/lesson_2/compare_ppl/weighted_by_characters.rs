// Weights each text's loss with its length in characters.
// wrong: weighted by its length in characters
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let mut rows = Vec::new();
    for &(label, loaded) in models {
        let (mut nll, mut tokens) = (0.0, 0);
        for text in texts {
            let one = perplexity(loaded, &[text], &PerplexityOptions::default())?;
            nll += one.mean_nll * text.chars().count() as f64;
            tokens += text.chars().count();
        }
        if tokens == 0 {
            return Err(Error::input("there is no token to predict"));
        }
        let loss = nll / tokens as f64;
        rows.push(ModelPpl { label: label.to_owned(), loss, ppl: loss.exp() });
    }
    Ok(rows)
}
