// The tokenizer runs while the clock does.
// wrong: the tokenizer ran between
fn measure_batched(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    batch_size: usize,
    max_new_tokens: usize,
) -> Result<Vec<Metrics>> {
    if batch_size == 0 || prompts.is_empty() {
        return Err(Error::input("there is nothing to measure"));
    }
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    let mut all = Vec::new();
    for batch in prompts.chunks(batch_size) {
        loaded.model.synchronize()?;
        let start = clock.now();
        let ids = batch.iter().map(|prompt| loaded.tokenizer.encode(prompt)).collect::<Result<Vec<_>>>()?;
        let generated = generate_tokens(&*loaded.model, &ids, &options, &mut |_, _| ())?;
        loaded.model.synchronize()?;
        let seconds = clock.now() - start;
        all.push(Metrics::of(generated.iter().map(|sequence| sequence.tokens.len()).sum(), seconds));
    }
    Ok(all)
}
