// Measures with the padding in the outer loop and writes the labels with the cache in the outer loop.
// wrong: are labels swapped
fn ablate_cache_and_padding(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let mut measured = Vec::new();
    for padding_side in [PaddingSide::Left, PaddingSide::Right] {
        for use_cache in [true, false] {
            let options = GenerateOptions { max_new_tokens, use_cache, padding_side, ..GenerateOptions::default() };
            time_batch(clock, loaded, prompts, &options)?;
            measured.push(repeat(repeats, || time_batch(clock, loaded, prompts, &options))?);
        }
    }
    let labels = [
        (true, PaddingSide::Left),
        (true, PaddingSide::Right),
        (false, PaddingSide::Left),
        (false, PaddingSide::Right),
    ];
    let rows = labels.into_iter().zip(measured);
    Ok(rows.map(|((use_cache, padding_side), runs)| AblationRun { use_cache, padding_side, runs }).collect())
}
