// Builds the table by rows, with a column for the dtype and one for the number of runs, and the dtypes in the caption too.
// right
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let mut table = Table::new("Quantized inference: all scenarios").headings([
        ("scenario", ""),
        ("dtype", ""),
        ("latency", "s"),
        ("throughput", "tokens/s"),
        ("time per token", "ms"),
        ("perplexity", ""),
        ("runs", ""),
    ]);
    let mut dtypes = String::from("dtype");
    for row in rows {
        table = table.row((
            &row.scenario,
            &row.dtype,
            row.runs.latency_s,
            row.runs.tokens_per_s,
            row.runs.per_token_ms,
            row.ppl,
            row.runs.runs.len(),
        ));
        dtypes.push_str(&format!(" | {}: {}", row.scenario, row.dtype));
    }
    Ok(table.note(info).note(dtypes).note("medians with their intervals"))
}
