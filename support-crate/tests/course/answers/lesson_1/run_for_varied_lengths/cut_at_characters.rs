// Cuts the prompt at so many characters.
// wrong: repeat until the tokenized length is reached
fn run_for_varied_lengths(
    clock: &dyn Clock,
    loaded: &Loaded,
    target_lengths: &[usize],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<LengthRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let mut rows = Vec::new();
    for &target in target_lengths {
        let text: String = base.repeat(20).chars().take(target).collect();
        let prompt = Prompt { tokens: loaded.tokenizer.encode(&text)?.len(), text };
        let runs = repeat(repeats, || time_generate(clock, loaded, &prompt.text, max_new_tokens, true))?;
        rows.push(LengthRun { prompt_tokens: prompt.tokens, runs });
    }
    Ok(rows)
}
