// A prompt that fails is left out.
// wrong: pass errors on with `?`
fn probe_edge_prompts(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[EdgePrompt],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<EdgeRun>> {
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    let mut rows = Vec::new();
    for prompt in prompts {
        let texts = [prompt.text.as_str()];
        let Ok(_) = time_batch(clock, loaded, &texts, &options) else { continue };
        let Ok(runs) = repeat(repeats, || time_batch(clock, loaded, &texts, &options)) else { continue };
        let Ok(generation) = generate(loaded, &prompt.text, &options) else { continue };
        let prompt_tokens = loaded.tokenizer.encode(&prompt.text)?.len();
        rows.push(EdgeRun { name: prompt.name.clone(), prompt_tokens, runs, text: generation.text });
    }
    Ok(rows)
}
