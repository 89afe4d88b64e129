// Decodes prompt and new tokens and cuts by the length of the prompt, which fails where the prompt has a special token.
// wrong: the model said
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let options =
        GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    let (generated, latency) =
        stopwatch(clock, &*loaded.model, || loaded.generate_tokens(&ids, &options))?;
    let mut all = ids.clone();
    all.extend_from_slice(&generated.tokens);
    let whole = loaded.tokenizer.decode(&all)?;
    Ok((whole.get(prompt.len()..).unwrap_or_default().to_owned(), latency))
}
