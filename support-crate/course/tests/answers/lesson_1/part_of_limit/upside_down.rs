// The limit over what was reached.
// wrong: the part is rate over limit
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let parts: Vec<f64> = row.runs.runs.iter().zip(&row.gb_per_s)
        .map(|(run, gb)| 1e9 * gb / row.bytes_per_token as f64 / run.tokens_per_sec)
        .collect();
    Statistics::of(&parts)
}
