// Times all runs together and divides.
// wrong: each run has to be timed by itself
fn time_reference_prompt(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Runs> {
    let prompts = [loaded.tokenizer.encode(prompt)?];
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    let generate = || generate_tokens(&*loaded.model, &prompts, &options, &mut |_, _| ());
    generate()?;
    loaded.model.synchronize()?;
    let start = clock.now();
    for _ in 0..repeats {
        generate()?;
    }
    loaded.model.synchronize()?;
    let total_latency_s = (clock.now() - start) / repeats as f64;
    repeat(repeats, || {
        Ok(Metrics {
            total_latency_s,
            tokens_generated: max_new_tokens,
            tokens_per_sec: max_new_tokens as f64 / total_latency_s,
            avg_latency_per_token_ms: 1000.0 * total_latency_s / max_new_tokens as f64,
        })
    })
}
