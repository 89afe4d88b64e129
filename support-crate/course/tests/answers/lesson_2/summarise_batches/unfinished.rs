// Not started.
// not yet
fn summarise_batches(batch_size: usize, prompts: usize, runs: &[Vec<Metrics>]) -> Result<BatchRun> {
    todo!()
}
