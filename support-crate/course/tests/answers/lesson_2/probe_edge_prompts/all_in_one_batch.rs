// All prompts at once.
// wrong: one prompt at a time
fn probe_edge_prompts(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[EdgePrompt],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<EdgeRun>> {
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    let texts: Vec<&str> = prompts.iter().map(|prompt| prompt.text.as_str()).collect();
    let all = in_turn(repeats, prompts, |_| time_batch(clock, loaded, &texts, &options))?;
    let mut rows = Vec::new();
    for (prompt, runs) in prompts.iter().zip(all) {
        rows.push(EdgeRun {
            name: prompt.name.clone(),
            prompt_tokens: loaded.tokenizer.encode(&prompt.text)?.len(),
            runs: Runs::of(runs)?,
            text: generate(loaded, &prompt.text, &options)?.text,
        });
    }
    Ok(rows)
}
