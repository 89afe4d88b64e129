// Numbers as text, rounded, with a dash where there is none.
// right
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let text = |value: Option<f64>, decimals: usize| match value {
        Some(value) => format!("{value:.decimals$}"),
        None => "-".to_owned(),
    };
    Ok(Table::new("Summary")
        .column("scenario", "", rows.iter().map(|row| row.scenario.clone()))
        .column("dtype", "", rows.iter().map(|row| row.dtype.clone()))
        .column("latency (s)", "", rows.iter().map(|row| text(Some(row.runs.latency_s.median), 2)))
        .column("throughput (tokens/s)", "", rows.iter().map(|row| text(Some(row.runs.tokens_per_s.median), 1)))
        .column("per token (ms)", "", rows.iter().map(|row| text(Some(row.runs.per_token_ms.median), 2)))
        .column("ppl", "", rows.iter().map(|row| text(row.ppl, 1)))
        .note(format!("{} on {}", info.model, info.device)))
}
