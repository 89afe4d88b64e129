// The prompts that do not fill a batch are left out.
// wrong: 2 prompts, 8 at a time, are 1 batch; you returned none
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
    prompts.chunks_exact(batch_size).map(|batch| time_batch(clock, loaded, batch, &options)).collect()
}
