// A clock of its own.
// wrong: the clock that was passed in was not read
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    loaded.model.synchronize()?;
    let start = std::time::Instant::now();
    let generated = generate_tokens(&*loaded.model, &[ids], &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let latency = start.elapsed().as_secs_f64();
    Ok((loaded.tokenizer.decode(&generated[0].tokens)?, latency))
}
