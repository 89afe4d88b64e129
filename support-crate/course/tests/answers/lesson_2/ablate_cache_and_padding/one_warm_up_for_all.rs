// One dropped run at the start for all four settings together.
// wrong: drop the first run of each
fn ablate_cache_and_padding(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let warm_up = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    time_batch(clock, loaded, prompts, &warm_up)?;
    let mut rows = Vec::new();
    for use_cache in [true, false] {
        for padding_side in [PaddingSide::Left, PaddingSide::Right] {
            let options = GenerateOptions { use_cache, padding_side, ..warm_up.clone() };
            let runs = repeat(repeats, || time_batch(clock, loaded, prompts, &options))?;
            rows.push(AblationRun { use_cache, padding_side, runs });
        }
    }
    Ok(rows)
}
