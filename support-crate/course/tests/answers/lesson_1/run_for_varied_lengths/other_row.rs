// Puts the runs into the rows in reverse.
// wrong: has the time of a prompt of
fn run_for_varied_lengths(
    clock: &dyn Clock,
    loaded: &Loaded,
    config: &SweepConfig,
) -> Result<Vec<LengthRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let mut prompts = Vec::new();
    for &target in &config.prompt_lengths {
        prompts.push(prompt_of_tokens(loaded, base, target)?);
    }
    let SweepConfig { max_new_tokens, use_cache, repeats, .. } = *config;
    let mut runs = vec![Vec::new(); prompts.len()];
    for _ in 0..repeats {
        for (prompt, runs) in prompts.iter().zip(&mut runs) {
            runs.push(time_generate(clock, loaded, &prompt.text, max_new_tokens, use_cache)?);
        }
    }
    let mut rows = Vec::new();
    for (prompt, runs) in prompts.iter().zip(runs.into_iter().rev()) {
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs: Runs::of(runs)? });
    }
    Ok(rows)
}
