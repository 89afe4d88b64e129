// Row by row, with medians, other headings and the rows from fast to slow.
// right
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let mut sorted: Vec<&ScenarioRun> = rows.iter().collect();
    sorted.sort_by(|a, b| b.runs.tokens_per_s.median.total_cmp(&a.runs.tokens_per_s.median));
    let mut table = Table::new(format!("Results of {} on {}", info.model, info.device)).headings([
        ("what", ""),
        ("precision", ""),
        ("total_latency_s", ""),
        ("tokens_per_sec", ""),
        ("avg_latency_per_token_ms", ""),
        ("perplexity", ""),
    ]);
    for ScenarioRun { scenario, dtype, runs, ppl } in sorted {
        table = table.row((
            scenario,
            dtype,
            runs.latency_s.median,
            runs.tokens_per_s.median,
            runs.per_token_ms.median,
            *ppl,
        ));
    }
    Ok(table)
}
