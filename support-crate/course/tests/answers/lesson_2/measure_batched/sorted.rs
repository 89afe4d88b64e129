// Prompts sorted by length, so that there is less to pad.
// wrong: a text other than prompt
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
    let mut prompts = prompts.to_vec();
    prompts.sort_by_key(|prompt| prompt.len());
    prompts.chunks(batch_size).map(|batch| time_batch(clock, loaded, batch, &options)).collect()
}
