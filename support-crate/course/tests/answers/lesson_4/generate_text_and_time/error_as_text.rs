// Puts the error into the text.
// wrong: pass the error on
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    let ids = loaded.tokenizer.encode(prompt)?;
    match stopwatch(clock, &*loaded.model, || loaded.generate_tokens(&ids, &options)) {
        Ok((generated, latency)) => Ok((loaded.tokenizer.decode(&generated.tokens)?, latency)),
        Err(error) => Ok((error.to_string(), f64::NAN)),
    }
}
