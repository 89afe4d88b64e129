// Goes on where a run fails.
// wrong: as if all was well
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
            let mut metrics = Vec::new();
            while metrics.len() < repeats {
                if let Ok(run) = time_batch(clock, loaded, prompts, &options) {
                    metrics.push(run);
                }
            }
            let runs = Runs::of(metrics)?;
            rows.push(AblationRun { use_cache, padding_side, runs });
        }
    }
    Ok(rows)
}
