// Each batch is run once before it is timed.
// right
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
    let mut all = vec![];
    for batch in prompts.chunks(batch_size) {
        time_batch(clock, loaded, batch, &options)?;
        all.push(time_batch(clock, loaded, batch, &options)?);
    }
    Ok(all)
}
