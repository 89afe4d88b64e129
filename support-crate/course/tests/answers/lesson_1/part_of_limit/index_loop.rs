// With indices, and from the latency.
// right
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let mut parts = Vec::new();
    for i in 0..row.gb_per_s.len() {
        let run = &row.runs.runs[i];
        let seconds_at_best = row.bytes_per_token as f64 * run.tokens_generated as f64 / (row.gb_per_s[i] * 1e9);
        parts.push(seconds_at_best / run.total_latency_s);
    }
    Statistics::of(&parts)
}
