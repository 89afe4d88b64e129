// Throughput and time per token stand under each other's headings.
// wrong: its heading does not say that unit
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    Ok(Table::new("Summary table")
        .column("scenario", "", rows.iter().map(|row| &row.scenario))
        .column("dtype", "", rows.iter().map(|row| &row.dtype))
        .column("latency", "s", rows.iter().map(|row| row.runs.latency_s))
        .column("per token ", "ms", rows.iter().map(|row| row.runs.tokens_per_s))
        .column("throughput", "tokens/s", rows.iter().map(|row| row.runs.per_token_ms))
        .column("ppl", "", rows.iter().map(|row| row.ppl))
        .note(info))
}
