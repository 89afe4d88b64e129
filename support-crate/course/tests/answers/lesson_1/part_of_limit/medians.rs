// The ratio of two medians.
// wrong: pair each run with the bandwidth of its own round
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let memory = Statistics::of(&row.gb_per_s)?;
    let parts: Vec<f64> =
        row.runs.runs.iter().map(|run| run.tokens_per_sec * row.bytes_per_token as f64 / (1e9 * memory.median)).collect();
    Statistics::of(&parts)
}
