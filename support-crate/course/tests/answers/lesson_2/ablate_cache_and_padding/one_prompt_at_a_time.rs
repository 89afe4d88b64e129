// Without a batch there is nothing to pad.
// wrong: for all prompts together
fn ablate_cache_and_padding(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let mut rows = Vec::new();
    for use_cache in [true, false] {
        for padding_side in [PaddingSide::Left, PaddingSide::Right] {
            let options = GenerateOptions { max_new_tokens, use_cache, padding_side, ..GenerateOptions::default() };
            time_batch(clock, loaded, prompts, &options)?;
            let one_by_one = || {
                let mut all = time_batch(clock, loaded, &prompts[..1], &options)?;
                for prompt in &prompts[1..] {
                    let one = time_batch(clock, loaded, &[*prompt], &options)?;
                    all.total_latency_s += one.total_latency_s;
                    all.tokens_generated += one.tokens_generated;
                }
                all.tokens_per_sec = all.tokens_generated as f64 / all.total_latency_s;
                Ok(all)
            };
            let runs = repeat(repeats, one_by_one)?;
            rows.push(AblationRun { use_cache, padding_side, runs });
        }
    }
    Ok(rows)
}
