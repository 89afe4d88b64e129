// Makes one run more than asked for, "for the warm-up", and keeps it.
// wrong: `repeats` was 2, but a row has 3 runs
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
            let mut metrics = Vec::new();
            for _ in 0..=repeats {
                metrics.push(time_batch(clock, loaded, prompts, &options)?);
            }
            rows.push(AblationRun { use_cache, padding_side, runs: Runs::of(metrics)? });
        }
    }
    Ok(rows)
}
