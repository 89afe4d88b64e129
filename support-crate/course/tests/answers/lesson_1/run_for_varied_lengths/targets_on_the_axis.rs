// Puts the target on the axis, not what came of it.
// wrong: the model read prompts of
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let prompt = prompt_of_tokens(loaded, base, target)?;
        let runs = repeat(config.repeats, || time_generate(clock, loaded, &prompt.text, config.max_new_tokens, config.use_cache))?;
        rows.push(LengthRun { prompt_tokens: target, runs });
    }
    Ok(rows)
}
