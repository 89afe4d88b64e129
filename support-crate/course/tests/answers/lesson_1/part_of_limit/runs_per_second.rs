// Takes a run for a token.
// wrong: runs per second
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let parts: Vec<f64> = row.runs.runs.iter().zip(&row.gb_per_s)
        .map(|(run, gb)| row.bytes_per_token as f64 / (1e9 * gb) / run.total_latency_s)
        .collect();
    Statistics::of(&parts)
}
