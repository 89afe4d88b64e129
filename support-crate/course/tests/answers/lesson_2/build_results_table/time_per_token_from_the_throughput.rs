// Takes the reciprocal of the median throughput for the time per token, which is not its median for an even number of runs.
// wrong: no column holds the median time per token
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    let mut table = Table::new("Summary table").headings([
        ("scenario", ""),
        ("dtype", ""),
        ("latency", "s"),
        ("throughput", "tokens/s"),
        ("per token", "ms"),
        ("ppl", ""),
    ]);
    for row in rows {
        let throughput = row.runs.tokens_per_s.median;
        let per_token = 1000.0 / throughput;
        table = table.row((&row.scenario, &row.dtype, row.runs.latency_s.median, throughput, per_token, row.ppl));
    }
    Ok(table.note(info))
}
