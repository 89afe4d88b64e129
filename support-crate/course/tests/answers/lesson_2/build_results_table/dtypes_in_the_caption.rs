// Builds the columns from vectors filled in a loop and names each row's dtype in the caption, not in a column.
// right
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let mut names = Vec::new();
    let mut latency = Vec::new();
    let mut throughput = Vec::new();
    let mut per_token = Vec::new();
    let mut ppl: Vec<Option<f64>> = Vec::new();
    let mut caption = format!("{info} | dtype of each row:");
    for row in rows {
        names.push(row.scenario.clone());
        latency.push(row.runs.latency_s);
        throughput.push(row.runs.tokens_per_s);
        per_token.push(row.runs.per_token_ms);
        ppl.push(row.ppl);
        caption += &format!(" {} = {};", row.scenario, row.dtype);
    }
    Ok(Table::new("Summary")
        .column("scenario", "", names)
        .column("perplexity", "", ppl)
        .column("throughput", "tokens/s", throughput)
        .column("latency", "s", latency)
        .column("per token", "ms", per_token)
        .decimals("perplexity", 2)
        .note(caption))
}
