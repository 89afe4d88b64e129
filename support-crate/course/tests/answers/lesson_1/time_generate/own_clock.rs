// Reads a clock of its own.
// wrong: the clock that was passed in was not read
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let prompts = [loaded.tokenizer.encode(prompt)?];
    let options = GenerateOptions { max_new_tokens, use_cache, stop_at_eos: false, ..GenerateOptions::default() };
    generate_tokens(&*loaded.model, &prompts, &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let start = std::time::Instant::now();
    let generated = generate_tokens(&*loaded.model, &prompts, &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let total_latency_s = start.elapsed().as_secs_f64() + 0.0 * f64::from(u8::from(std::ptr::eq(clock, clock)));
    let tokens_generated = generated[0].tokens.len();
    Ok(Metrics {
        total_latency_s,
        tokens_generated,
        tokens_per_sec: tokens_generated as f64 / total_latency_s,
        avg_latency_per_token_ms: 1000.0 * total_latency_s / tokens_generated as f64,
    })
}
