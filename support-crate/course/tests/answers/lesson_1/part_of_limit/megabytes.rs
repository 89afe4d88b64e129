// Takes a GB for 10^6 bytes.
// wrong: not 10^6
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let parts: Vec<f64> = row.runs.runs.iter().zip(&row.gb_per_s)
        .map(|(run, gb)| run.tokens_per_sec * row.bytes_per_token as f64 / (1e6 * gb))
        .collect();
    Statistics::of(&parts)
}
