// Cuts the prompt at so many characters.
// wrong: repeat until the tokenized length is reached
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let text: String = base.repeat(20).chars().take(target).collect();
        let prompt = Prompt { tokens: loaded.tokenizer.encode(&text)?.len(), text };
        let runs = repeat(config.repeats, || time_generate(clock, loaded, &prompt.text, config.max_new_tokens, config.use_cache))?;
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs });
    }
    Ok(rows)
}
