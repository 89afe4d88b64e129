// Has the timed part in a closure, takes the only sequence, and makes sure that it has all its tokens.
// right
fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..Default::default() };
    let prompts = vec![loaded.tokenizer.encode(prompt)?];
    let now = || -> Result<f64> {
        loaded.model.synchronize()?;
        Ok(clock.now())
    };
    let start = now()?;
    let sequences = generate_tokens(loaded.model.as_ref(), &prompts, &options, &mut |_, _| {})?;
    let end = now()?;
    let Some(sequence) = sequences.into_iter().next() else {
        return Err(Error::input("nothing was generated"));
    };
    if sequence.tokens.len() != max_new_tokens {
        return Err(Error::input(format!("{} tokens instead of {max_new_tokens}", sequence.tokens.len())));
    }
    let text = loaded.tokenizer.decode(&sequence.tokens)?;
    Ok((text, end - start))
}
