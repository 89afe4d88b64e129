// Plain loops, and an error with words of its own.
// right
fn summarise_batches(batch_size: usize, prompts: usize, runs: &[Vec<Metrics>]) -> Result<BatchRun> {
    if runs.is_empty() || prompts == 0 {
        return Err(Error::input("nothing was measured"));
    }
    let mut all = Vec::new();
    let mut times = Vec::new();
    for run in runs {
        let mut seconds = 0.0;
        let mut tokens = 0;
        for batch in run {
            seconds += batch.total_latency_s;
            tokens += batch.tokens_generated;
            times.push(batch.total_latency_s);
        }
        all.push(Metrics {
            total_latency_s: seconds,
            tokens_generated: tokens,
            tokens_per_sec: tokens as f64 / seconds,
            avg_latency_per_token_ms: seconds * 1e3 / tokens as f64,
        });
    }
    let per_sample: Vec<f64> = all.iter().map(|run| run.total_latency_s / prompts as f64).collect();
    let batch_latency_s = Statistics::of(&times)?;
    let time_per_sample_s = Statistics::of(&per_sample)?;
    Ok(BatchRun { batch_size, runs: Runs::of(all)?, batch_latency_s, time_per_sample_s })
}
