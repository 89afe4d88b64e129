// All of the limit where there is none.
// wrong: no bandwidth was measured
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let parts: Vec<f64> = row.runs.runs.iter().zip(&row.gb_per_s)
        .map(|(run, gb)| run.tokens_per_sec * row.bytes_per_token as f64 / (1e9 * gb))
        .collect();
    if parts.is_empty() {
        return Statistics::of(&[1.0]);
    }
    Statistics::of(&parts)
}
