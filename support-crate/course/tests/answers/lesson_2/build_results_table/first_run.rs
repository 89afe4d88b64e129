// Takes the figures of each scenario's first run.
// wrong: no column holds the median latency
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let first = |row: &ScenarioRun| row.runs.runs.first().copied().unwrap_or_default();
    Ok(Table::new("All scenarios")
        .column("scenario", "", rows.iter().map(|row| &row.scenario))
        .column("dtype", "", rows.iter().map(|row| &row.dtype))
        .column("latency", "s", rows.iter().map(|row| first(row).total_latency_s))
        .column("throughput", "tokens/s", rows.iter().map(|row| first(row).tokens_per_sec))
        .column("per token", "ms", rows.iter().map(|row| first(row).avg_latency_per_token_ms))
        .column("ppl", "", rows.iter().map(|row| row.ppl))
        .note(info))
}
