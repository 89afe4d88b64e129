// Fixes the number of new tokens by `min_new_tokens` as well, and takes `max_new_tokens` for the count after checking it.
// right
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let options = GenerateOptions {
        max_new_tokens,
        min_new_tokens: max_new_tokens,
        use_cache,
        stop_at_eos: false,
        do_sample: false,
        ..GenerateOptions::default()
    };
    let ids = loaded.tokenizer.encode(prompt)?;
    let model = &*loaded.model;
    let _warm_up = generate_tokens(model, &[ids.clone()], &options, &mut |_, _| ())?;
    model.synchronize()?;
    let t0 = clock.now();
    let result = generate_tokens(model, &[ids], &options, &mut |_, _| ())?;
    model.synchronize()?;
    let t1 = clock.now();
    assert_eq!(result[0].tokens.len(), max_new_tokens);
    let n = max_new_tokens as f64;
    Ok(Metrics {
        total_latency_s: t1 - t0,
        tokens_generated: max_new_tokens,
        tokens_per_sec: n / (t1 - t0),
        avg_latency_per_token_ms: (t1 - t0) / n * 1e3,
    })
}
