// Padding is never on the right.
// wrong: or is a setting not passed on
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
            let options = GenerateOptions { max_new_tokens, use_cache, ..GenerateOptions::default() };
            time_batch(clock, loaded, prompts, &options)?;
            let runs = repeat(repeats, || time_batch(clock, loaded, prompts, &options))?;
            rows.push(AblationRun { use_cache, padding_side, runs });
        }
    }
    Ok(rows)
}
