// Keeps the readings of the clock as f32, which loses milliseconds once the clock has run for hours.
// wrong: `total_latency_s` is
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let options = GenerateOptions { max_new_tokens, use_cache, stop_at_eos: false, ..GenerateOptions::default() };
    loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let start = clock.now() as f32;
    let generated = loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let total_latency_s = f64::from(clock.now() as f32 - start);
    let n = generated.tokens.len();
    Ok(Metrics {
        total_latency_s,
        tokens_generated: n,
        tokens_per_sec: n as f64 / total_latency_s,
        avg_latency_per_token_ms: 1000.0 * total_latency_s / n as f64,
    })
}
