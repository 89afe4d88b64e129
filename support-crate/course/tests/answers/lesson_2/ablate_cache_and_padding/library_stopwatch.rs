// Uses the library's `time_generate_batch`, which does the warm-up and the repeats by itself.
// wrong: no two readings of the clock are that far apart
fn ablate_cache_and_padding(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let _ = clock;
    let mut rows = Vec::new();
    for use_cache in [true, false] {
        for padding_side in [PaddingSide::Left, PaddingSide::Right] {
            let timing = TimingOptions { max_new_tokens, use_cache, repeats, ..TimingOptions::default() };
            let runs = loaded.time(prompts, &timing)?.runs;
            rows.push(AblationRun { use_cache, padding_side, runs });
        }
    }
    Ok(rows)
}
