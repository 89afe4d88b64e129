// Collects the tokens as they come.
// right
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let model = &*loaded.model;
    let prompts = vec![loaded.tokenizer.encode(prompt)?];
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..Default::default() };
    let mut new = Vec::new();
    model.synchronize()?;
    let before = clock.now();
    generate_tokens(model, &prompts, &options, &mut |_, token| new.push(token))?;
    model.synchronize()?;
    let after = clock.now();
    let text = loaded.tokenizer.decode(&new)?;
    Ok((text, after - before))
}
