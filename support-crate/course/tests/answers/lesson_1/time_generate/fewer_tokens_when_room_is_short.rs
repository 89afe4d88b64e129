// Generates fewer than max_new_tokens where the context is short, instead of passing the error on.
// wrong: do not fit into a context
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let room = loaded.model.info().context_len.saturating_sub(ids.len());
    let max_new_tokens = max_new_tokens.min(room);
    let options = GenerateOptions { max_new_tokens, use_cache, stop_at_eos: false, ..GenerateOptions::default() };
    loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let start = clock.now();
    let generated = loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let total_latency_s = clock.now() - start;
    let n = generated.tokens.len();
    Ok(Metrics {
        total_latency_s,
        tokens_generated: n,
        tokens_per_sec: n as f64 / total_latency_s,
        avg_latency_per_token_ms: 1000.0 * total_latency_s / n as f64,
    })
}
