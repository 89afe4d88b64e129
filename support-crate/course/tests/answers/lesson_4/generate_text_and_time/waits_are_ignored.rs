// Ignores whether the device could be waited for.
// wrong: pass the error on
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    let ids = loaded.tokenizer.encode(prompt)?;
    let _ = loaded.model.synchronize();
    let start = clock.now();
    let generated = loaded.generate_tokens(&ids, &options)?;
    let _ = loaded.model.synchronize();
    let latency = clock.now() - start;
    Ok((loaded.tokenizer.decode(&generated.tokens)?, latency))
}
