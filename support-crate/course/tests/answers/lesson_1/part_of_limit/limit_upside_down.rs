// Divides the bytes by the bandwidth.
// wrong: the limit is bandwidth over bytes
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let parts: Vec<f64> = row.runs.runs.iter().zip(&row.gb_per_s)
        .map(|(run, gb)| run.tokens_per_sec / (row.bytes_per_token as f64 / (1e9 * gb)))
        .collect();
    Statistics::of(&parts)
}
