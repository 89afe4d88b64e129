// Sorts the dtypes, and not the rows.
// wrong: nothing says that
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let mut dtypes: Vec<&String> = rows.iter().map(|row| &row.dtype).collect();
    dtypes.sort();
    Ok(Table::new("Summary table")
        .column("scenario", "", rows.iter().map(|row| &row.scenario))
        .column("dtype", "", dtypes)
        .column("latency", "s", rows.iter().map(|row| row.runs.latency_s))
        .column("throughput", "tokens/s", rows.iter().map(|row| row.runs.tokens_per_s))
        .column("per token", "ms", rows.iter().map(|row| row.runs.per_token_ms))
        .column("ppl", "", rows.iter().map(|row| row.ppl))
        .note(info))
}
