// Nobody has written it yet.
// not yet
fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    todo!()
}
