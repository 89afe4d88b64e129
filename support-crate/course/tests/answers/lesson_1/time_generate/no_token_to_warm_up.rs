// Warms up with one token less than it is to time, which is none before a prefill.
// wrong: does the warm-up generate none?
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
    let warm_up = GenerateOptions { max_new_tokens: max_new_tokens - 1, ..options.clone() };
    loaded.generate_tokens(&ids, &warm_up)?;
    loaded.model.synchronize()?;
    let start = clock.now();
    let generated = loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let total_latency_s = clock.now() - start;
    Ok(Metrics::of(generated.tokens.len(), total_latency_s))
}
