// The mean batch of each run.
// wrong: count every batch by itself
fn summarise_batches(batch_size: usize, prompts: usize, runs: &[Vec<Metrics>]) -> Result<BatchRun> {
    let (mut totals, mut waits, mut shares) = (Vec::new(), Vec::new(), Vec::new());
    for batches in runs {
        let total_latency_s = batches.iter().map(|batch| batch.total_latency_s).sum::<f64>();
        let tokens_generated = batches.iter().map(|batch| batch.tokens_generated).sum::<usize>();
        waits.push(total_latency_s / batches.len() as f64);
        shares.push(total_latency_s / prompts as f64);
        totals.push(Metrics {
            total_latency_s,
            tokens_generated,
            tokens_per_sec: tokens_generated as f64 / total_latency_s,
            avg_latency_per_token_ms: 1000.0 * total_latency_s / tokens_generated as f64,
        });
    }
    Ok(BatchRun {
        batch_size,
        runs: Runs::of(totals)?,
        batch_latency_s: Statistics::of(&waits)?,
        time_per_sample_s: Statistics::of(&shares)?,
    })
}
