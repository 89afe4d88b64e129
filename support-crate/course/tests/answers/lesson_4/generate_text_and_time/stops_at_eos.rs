// Lets the model end its text.
// wrong: the model wanted to end its text
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    loaded.model.synchronize()?;
    let start = clock.now();
    let generated = generate_tokens(&*loaded.model, &[ids], &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let latency = clock.now() - start;
    Ok((loaded.tokenizer.decode(&generated[0].tokens)?, latency))
}
