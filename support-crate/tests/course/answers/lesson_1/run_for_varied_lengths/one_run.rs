// Times each length once.
// wrong: a row has 1 runs
fn run_for_varied_lengths(
    clock: &dyn Clock,
    loaded: &Loaded,
    target_lengths: &[usize],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<LengthRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let mut rows = Vec::new();
    for &target in target_lengths {
        let prompt = prompt_of_tokens(loaded, base, target)?;
        let runs = repeat(repeats.min(1), || time_generate(clock, loaded, &prompt.text, max_new_tokens, true))?;
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs });
    }
    Ok(rows)
}
