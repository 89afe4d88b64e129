// Times each length once.
// wrong: a row has 1 runs
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let prompt = prompt_of_tokens(loaded, base, target)?;
        let runs = repeat(config.repeats.min(1), || time_generate(clock, loaded, &prompt.text, config.max_new_tokens, config.use_cache))?;
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs });
    }
    Ok(rows)
}
