// Always 50 tokens.
// wrong: 8 tokens were asked for, but 50 were generated
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let options = GenerateOptions { stop_at_eos: false, ..GenerateOptions::default() };
    let ids = loaded.tokenizer.encode(prompt)?;
    let (generated, latency) = stopwatch(clock, &*loaded.model, || loaded.generate_tokens(&ids, &options))?;
    Ok((loaded.tokenizer.decode(&generated.tokens)?, latency))
}
