// Leaves the first new token out of the rates, because it belongs to prefill.
// wrong: but tokens_generated / total_latency_s is
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let ids = vec![loaded.tokenizer.encode(prompt)?];
    let options = GenerateOptions { max_new_tokens, use_cache, stop_at_eos: false, ..GenerateOptions::default() };
    generate_tokens(&*loaded.model, &ids, &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let start = clock.now();
    let generated = generate_tokens(&*loaded.model, &ids, &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let total_latency_s = clock.now() - start;
    let tokens_generated = generated[0].tokens.len();
    let decoded = (tokens_generated - 1).max(1) as f64;
    Ok(Metrics {
        total_latency_s,
        tokens_generated,
        tokens_per_sec: decoded / total_latency_s,
        avg_latency_per_token_ms: 1000.0 * total_latency_s / decoded,
    })
}
