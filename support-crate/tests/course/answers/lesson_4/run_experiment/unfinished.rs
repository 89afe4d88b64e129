// Nobody has written it yet.
// not yet
fn run_experiment(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    model_id: &str,
    configurations: &[Configuration],
    prompts: &[&str],
    max_new_tokens: usize,
    num_timing_runs: usize,
) -> Result<Vec<ExperimentRow>> {
    todo!()
}
