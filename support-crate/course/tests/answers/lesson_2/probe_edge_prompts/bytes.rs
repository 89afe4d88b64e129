// Bytes for tokens.
// wrong: but `prompt_tokens` is
fn probe_edge_prompts(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[EdgePrompt],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<EdgeRun>> {
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    let all = in_turn(repeats, prompts, |prompt| time_batch(clock, loaded, &[&prompt.text], &options))?;
    let mut rows = Vec::new();
    for (prompt, runs) in prompts.iter().zip(all) {
        rows.push(EdgeRun {
            name: prompt.name.clone(),
            prompt_tokens: prompt.text.len(),
            runs: Runs::of(runs)?,
            text: generate(loaded, &prompt.text, &options)?.text,
        });
    }
    Ok(rows)
}
