// Reads the first two hundred characters of a text.
// wrong: over all tokens is
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let texts: Vec<String> = texts.iter().map(|text| text.chars().take(200).collect()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut rows = Vec::new();
    for &(label, loaded) in models {
        let (mut nll, mut tokens) = (0.0, 0);
        for text in &texts {
            let one = perplexity(loaded, &[text], &PerplexityOptions::default())?;
            nll += one.mean_nll * one.tokens as f64;
            tokens += one.tokens;
        }
        if tokens == 0 {
            return Err(Error::input("there is no token to predict"));
        }
        let loss = nll / tokens as f64;
        rows.push(ModelPpl { label: label.to_owned(), loss, ppl: loss.exp() });
    }
    Ok(rows)
}
