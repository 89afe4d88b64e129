// Leaves out what does not fit into the context.
// wrong: a prompt of 4000 tokens does not fit
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let Ok(prompt) = prompt_of_tokens(loaded, base, target) else { continue };
        let time = || time_generate(clock, loaded, &prompt.text, config.max_new_tokens, config.use_cache);
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs: repeat(config.repeats, time)? });
    }
    Ok(rows)
}
