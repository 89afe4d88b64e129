// As in the notebook.
// right
fn part_of_limit(row: &PrecisionRun) -> Result<Statistics> {
    let rounds = row.runs.runs.iter().zip(&row.gb_per_s);
    let part = |(run, gb_per_s): (&Metrics, &f64)| {
        let limit = 1e9 * gb_per_s / row.bytes_per_token as f64;
        run.tokens_per_sec / limit
    };
    Statistics::of(&rounds.map(part).collect::<Vec<_>>())
}
