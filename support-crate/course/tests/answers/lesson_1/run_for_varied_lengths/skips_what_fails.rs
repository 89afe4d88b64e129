// Leaves a length out when its prompt or its timing fails.
// wrong: the model failed in one of the runs, but you returned rows
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let Ok(prompt) = prompt_of_tokens(loaded, "The quick brown fox jumps over the lazy dog. ", target) else {
            continue;
        };
        if let Ok(runs) = repeat(config.repeats, || time_generate(clock, loaded, &prompt.text, config.max_new_tokens, config.use_cache)) {
            rows.push(LengthRun { prompt_tokens: prompt.tokens, runs });
        }
    }
    Ok(rows)
}
