// Decodes in the stopwatch.
// wrong: ids were turned into text inside
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    let ids = loaded.tokenizer.encode(prompt)?;
    stopwatch(clock, &*loaded.model, || loaded.tokenizer.decode(&loaded.generate_tokens(&ids, &options)?.tokens))
}
