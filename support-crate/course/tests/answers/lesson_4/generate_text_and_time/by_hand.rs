// Reads the clock by hand.
// right
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    loaded.model.synchronize()?;
    let start = clock.now();
    let generated = loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let end = clock.now();
    let text = loaded.tokenizer.decode(&generated.tokens)?;
    Ok((text.trim().to_string(), end - start))
}
