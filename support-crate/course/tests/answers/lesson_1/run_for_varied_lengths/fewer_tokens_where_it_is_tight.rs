// Makes fewer new tokens after a prompt that leaves less room than max_new_tokens.
// wrong: do not fit into the model's context of 1024
fn run_for_varied_lengths(
    clock: &dyn Clock,
    loaded: &Loaded,
    config: &SweepConfig,
) -> Result<Vec<LengthRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let context = loaded.model.info().context_len;
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let prompt = prompt_of_tokens(loaded, base, target)?;
        let new_tokens = config.max_new_tokens.min(context - prompt.tokens);
        let runs = repeat(config.repeats, || {
            time_generate(clock, loaded, &prompt.text, new_tokens, config.use_cache)
        })?;
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs });
    }
    Ok(rows)
}
