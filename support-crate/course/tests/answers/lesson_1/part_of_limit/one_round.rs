// The part of the first round only.
// wrong: your statistics are made of 1
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let run = &row.runs.runs[0];
    let parts: Vec<f64> = row.gb_per_s.iter().take(1).map(|gb| run.tokens_per_sec * row.bytes_per_token as f64 / (1e9 * gb)).collect();
    Statistics::of(&parts)
}
