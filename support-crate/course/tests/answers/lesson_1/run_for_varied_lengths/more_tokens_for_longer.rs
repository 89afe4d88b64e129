// Generates more after longer prompts.
// wrong: then a row is slow because it makes more tokens
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let prompt = prompt_of_tokens(loaded, base, target)?;
        let runs = repeat(config.repeats, || time_generate(clock, loaded, &prompt.text, config.max_new_tokens + target / 8, config.use_cache))?;
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs });
    }
    Ok(rows)
}
