// Has the 50 of the text around the exercise in the call instead of the argument.
// wrong: your rows generated 50 tokens
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let _ = config.max_new_tokens;
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let prompt = prompt_of_tokens(loaded, "The quick brown fox jumps over the lazy dog. ", target)?;
        let runs = repeat(config.repeats, || time_generate(clock, loaded, &prompt.text, 50, config.use_cache))?;
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs });
    }
    Ok(rows)
}
