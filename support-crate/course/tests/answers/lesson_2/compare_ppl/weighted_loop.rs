// Adds up each text's loss times its tokens, text by text, with plain loops.
// right
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let mut rows = Vec::new();
    for &(label, loaded) in models {
        let mut nats = 0.0;
        let mut tokens = 0;
        for text in texts {
            let one = perplexity(loaded, &[*text], &PerplexityOptions::default())?;
            nats += one.mean_nll * one.tokens as f64;
            tokens += one.tokens;
        }
        if tokens == 0 {
            return Err(Error::input("there is no token to predict"));
        }
        let loss = nats / tokens as f64;
        rows.push(ModelPpl { label: label.to_string(), loss, ppl: loss.exp() });
    }
    Ok(rows)
}
