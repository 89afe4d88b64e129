// Names scenario and dtype in one cell.
// wrong: put the dtype into a column of its own
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    Ok(Table::new("Summary table")
        .column("scenario", "", rows.iter().map(|row| format!("{}: {}", row.scenario, row.dtype)))
        .column("latency", "s", rows.iter().map(|row| row.runs.latency_s))
        .column("throughput", "tokens/s", rows.iter().map(|row| row.runs.tokens_per_s))
        .column("per token", "ms", rows.iter().map(|row| row.runs.per_token_ms))
        .column("ppl", "", rows.iter().map(|row| row.ppl))
        .note(info))
}
