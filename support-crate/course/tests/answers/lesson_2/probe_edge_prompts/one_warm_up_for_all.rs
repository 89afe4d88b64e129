// Only the first prompt has a run that is dropped.
// wrong: the first run of the very long prompt was timed
fn probe_edge_prompts(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[EdgePrompt],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<EdgeRun>> {
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    time_batch(clock, loaded, &[prompts[0].text.as_str()], &options)?;
    let mut rows = vec![];
    for prompt in prompts {
        let texts = [prompt.text.as_str()];
        let runs = repeat(repeats, || time_batch(clock, loaded, &texts, &options))?;
        let text = generate(loaded, &prompt.text, &options)?.text;
        let prompt_tokens = loaded.tokenizer.encode(&prompt.text)?.len();
        rows.push(EdgeRun { name: prompt.name.to_string(), prompt_tokens, runs, text });
    }
    Ok(rows)
}
