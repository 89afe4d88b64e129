// One token too few: not because the text ended.
// wrong: 8 tokens were asked for, but 7 were generated in the timed part
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let default = GenerateOptions::default();
    let options = GenerateOptions { max_new_tokens: max_new_tokens - 1, use_cache, stop_at_eos: false, ..default };
    loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let start = clock.now();
    let generated = loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let total_latency_s = clock.now() - start;
    let tokens_generated = generated.tokens.len();
    Ok(Metrics {
        total_latency_s,
        tokens_generated,
        tokens_per_sec: tokens_generated as f64 / total_latency_s,
        avg_latency_per_token_ms: 1000.0 * total_latency_s / tokens_generated as f64,
    })
}
