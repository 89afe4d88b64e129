// 2^30 bytes to a GB.
// wrong: a GB is 10^9 bytes
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let parts: Vec<f64> = row.runs.runs.iter().zip(&row.gb_per_s)
        .map(|(run, gb)| run.tokens_per_sec * row.bytes_per_token as f64 / ((1u64 << 30) as f64 * gb))
        .collect();
    Statistics::of(&parts)
}
