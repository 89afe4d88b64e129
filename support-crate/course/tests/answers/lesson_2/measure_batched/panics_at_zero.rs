// `chunks(0)` panics.
// wrong: your function panics
fn measure_batched(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    batch_size: usize,
    max_new_tokens: usize,
) -> Result<Vec<Metrics>> {
    if prompts.is_empty() {
        return Err(Error::input("there is nothing to measure"));
    }
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    prompts.chunks(batch_size).map(|batch| time_batch(clock, loaded, batch, &options)).collect()
}
