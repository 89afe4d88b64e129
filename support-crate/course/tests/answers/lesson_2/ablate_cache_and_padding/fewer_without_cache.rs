// Fewer new tokens where it is slow.
// wrong: cannot be compared
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
            let max_new_tokens = if use_cache { max_new_tokens } else { max_new_tokens / 2 };
            let options = GenerateOptions { max_new_tokens, use_cache, padding_side, ..GenerateOptions::default() };
            time_batch(clock, loaded, prompts, &options)?;
            let runs = repeat(repeats, || time_batch(clock, loaded, prompts, &options))?;
            rows.push(AblationRun { use_cache, padding_side, runs });
        }
    }
    Ok(rows)
}
