// With a stopwatch of its own.
// right
fn ablate_cache_and_padding(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let mut rows = Vec::new();
    for (use_cache, padding_side) in [
        (true, PaddingSide::Left),
        (true, PaddingSide::Right),
        (false, PaddingSide::Left),
        (false, PaddingSide::Right),
    ] {
        let options =
            GenerateOptions { max_new_tokens, use_cache, padding_side, stop_at_eos: false, ..GenerateOptions::default() };
        let mut ids = Vec::new();
        for prompt in prompts {
            ids.push(loaded.tokenizer.encode(prompt)?);
        }
        generate_tokens(&*loaded.model, &ids, &options, &mut |_, _| ())?;
        let mut runs = Vec::new();
        for _ in 0..repeats {
            loaded.model.synchronize()?;
            let start = clock.now();
            let mut tokens = 0;
            generate_tokens(&*loaded.model, &ids, &options, &mut |_, _| tokens += 1)?;
            loaded.model.synchronize()?;
            let seconds = clock.now() - start;
            runs.push(Metrics {
                total_latency_s: seconds,
                tokens_generated: tokens,
                tokens_per_sec: tokens as f64 / seconds,
                avg_latency_per_token_ms: 1e3 * seconds / tokens as f64,
            });
        }
        rows.push(AblationRun { use_cache, padding_side, runs: Runs::of(runs)? });
    }
    Ok(rows)
}
