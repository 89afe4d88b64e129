// Nobody has written it yet.
// not yet
fn measure_batched(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    batch_sizes: &[usize],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<BatchRun>> {
    todo!()
}
