// Against the fastest reading of the memory.
// wrong: against the fastest round
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let memory = row.gb_per_s.iter().copied().fold(0.0, f64::max);
    if row.gb_per_s.is_empty() {
        return Err(Error::input("no bandwidth"));
    }
    let parts: Vec<f64> =
        row.runs.runs.iter().map(|run| run.tokens_per_sec * row.bytes_per_token as f64 / (1e9 * memory)).collect();
    Statistics::of(&parts)
}
