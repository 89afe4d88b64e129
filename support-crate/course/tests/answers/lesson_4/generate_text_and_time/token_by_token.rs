// Decodes each new token by itself and joins the pieces.
// wrong: decode all tokens together
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    loaded.model.synchronize()?;
    let start = clock.now();
    let new = generate_tokens(&*loaded.model, &[ids], &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let seconds = clock.now() - start;
    let mut text = String::new();
    for token in &new[0].tokens {
        text += &loaded.tokenizer.decode(&[*token])?;
    }
    Ok((text, seconds))
}
