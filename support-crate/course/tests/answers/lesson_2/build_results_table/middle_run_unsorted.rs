// Takes the run in the middle of the list for the median, without sorting.
// wrong: no column holds the median latency
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let middle = |row: &ScenarioRun| row.runs.runs[row.runs.runs.len() / 2];
    Ok(Table::new("Summary")
        .column("scenario", "", rows.iter().map(|row| &row.scenario))
        .column("dtype", "", rows.iter().map(|row| &row.dtype))
        .column("latency", "s", rows.iter().map(|row| middle(row).total_latency_s))
        .column("throughput", "tokens/s", rows.iter().map(|row| middle(row).tokens_per_sec))
        .column("per token", "ms", rows.iter().map(|row| middle(row).avg_latency_per_token_ms))
        .column("perplexity", "", rows.iter().map(|row| row.ppl))
        .note(info))
}
