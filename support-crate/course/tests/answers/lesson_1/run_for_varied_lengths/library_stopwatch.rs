// Times with the library's stopwatch, which reads a clock of its own.
// wrong: no two readings of the clock are that far apart
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
            { let _ = clock; let options = TimingOptions { max_new_tokens, use_cache, repeats: 1, ..TimingOptions::default() }; runs.push(loaded.time(&prompt.text, &options)?.runs.runs[0]) };
        }
    }
    let mut rows = Vec::new();
    for (prompt, runs) in prompts.iter().zip(runs) {
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs: Runs::of(runs)? });
    }
    Ok(rows)
}
