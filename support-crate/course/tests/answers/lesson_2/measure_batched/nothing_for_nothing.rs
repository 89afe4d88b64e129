// No prompts give no batches.
// wrong: there are no prompts, but you returned 0 batches
fn measure_batched(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    batch_size: usize,
    max_new_tokens: usize,
) -> Result<Vec<Metrics>> {
    if batch_size == 0 {
        return Err(Error::input("there is nothing to measure"));
    }
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    prompts.chunks(batch_size).map(|batch| time_batch(clock, loaded, batch, &options)).collect()
}
