// Counts one sequence of each batch.
// wrong: one sequence of each batch
fn measure_batched(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    batch_sizes: &[usize],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<BatchRun>> {
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    let mut rows = Vec::new();
    for &batch_size in batch_sizes {
        let run = || -> Result<Vec<Metrics>> {
            prompts.chunks(batch_size).map(|batch| time_batch(clock, loaded, batch, &options)).collect()
        };
        run()?;
        let (mut runs, mut waits, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repeats {
            let batches = run()?;
            let total_latency_s = batches.iter().map(|batch| batch.total_latency_s).sum::<f64>();
            let tokens_generated = batches.iter().map(|_| max_new_tokens).sum::<usize>();
            waits.extend(batches.iter().map(|batch| batch.total_latency_s));
            shares.push(total_latency_s / prompts.len() as f64);
            runs.push(Metrics {
                total_latency_s,
                tokens_generated,
                tokens_per_sec: tokens_generated as f64 / total_latency_s,
                avg_latency_per_token_ms: 1000.0 * total_latency_s / tokens_generated as f64,
            });
        }
        rows.push(BatchRun {
            batch_size,
            runs: Runs::of(runs)?,
            batch_latency: Statistics::of(&waits)?,
            time_per_sample: Statistics::of(&shares)?,
        });
    }
    Ok(rows)
}
