// Collects the perplexities that there are with `filter_map` and makes a column of them.
// wrong: it returned an error
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let ppl: Vec<f64> = rows.iter().filter_map(|row| row.ppl).collect();
    Ok(Table::new("All scenarios")
        .column("scenario", "", rows.iter().map(|row| row.scenario.as_str()))
        .column("dtype", "", rows.iter().map(|row| row.dtype.as_str()))
        .column("latency", "s", rows.iter().map(|row| row.runs.latency_s))
        .column("throughput", "tokens/s", rows.iter().map(|row| row.runs.tokens_per_s))
        .column("per token", "ms", rows.iter().map(|row| row.runs.per_token_ms))
        .column("ppl", "", ppl)
        .note(info))
}
