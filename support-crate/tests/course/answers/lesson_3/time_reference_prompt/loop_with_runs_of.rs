// A loop, a warm-up before each run, and laps of one clock.
// right
fn time_reference_prompt(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Runs> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    let mut runs = vec![];
    for _ in 0..repeats {
        generate_tokens(&*loaded.model, &[ids.clone()], &options, &mut |_, _| ())?;
        loaded.model.synchronize()?;
        let before = clock.now();
        generate_tokens(&*loaded.model, &[ids.clone()], &options, &mut |_, _| ())?;
        loaded.model.synchronize()?;
        let seconds = clock.now() - before;
        let tokens = max_new_tokens as f64;
        runs.push(Metrics {
            total_latency_s: seconds,
            tokens_generated: max_new_tokens,
            tokens_per_sec: tokens / seconds,
            avg_latency_per_token_ms: seconds * 1e3 / tokens,
        });
    }
    Runs::of(runs)
}
