// Decodes the first token.
// wrong: the model said
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    let ids = loaded.tokenizer.encode(prompt)?;
    let (generated, latency) = stopwatch(clock, &*loaded.model, || loaded.generate_tokens(&ids, &options))?;
    Ok((loaded.tokenizer.decode(&generated.tokens[..1])?, latency))
}
