// A loop that takes prompts from a list.
// right
fn measure_batched(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    batch_size: usize,
    max_new_tokens: usize,
) -> Result<Vec<Metrics>> {
    if prompts.len() == 0 {
        return Err(Error::input("no prompts"));
    }
    if batch_size < 1 {
        return Err(Error::input("batches of 0"));
    }
    let mut options = GenerateOptions::default();
    options.max_new_tokens = max_new_tokens;
    let mut all = Vec::new();
    let mut start = 0;
    while start < prompts.len() {
        let end = (start + batch_size).min(prompts.len());
        let run = time_batch(clock, loaded, &prompts[start..end], &options)?;
        all.push(run);
        start = end;
    }
    Ok(all)
}
