// In the order of the Python original, with a warm-up of its own and a match.
// right
fn run_experiment(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    model_id: &str,
    configurations: &[Configuration],
    prompts: &[&str],
    max_new_tokens: usize,
    num_timing_runs: usize,
) -> Result<Vec<ExperimentRow>> {
    let mut rows = Vec::new();
    let tokenizer = hub.tokenizer(model_id)?;
    for config in configurations {
        let model = match hub.model(model_id, &config.options) {
            Ok(model) => model,
            Err(error) => {
                rows.push(ExperimentRow { name: config.name.clone(), outcome: Err(error) });
                continue;
            }
        };
        let loaded = Loaded::new(tokenizer.clone(), model, model_id, "")?;
        let mut outputs = vec![String::new(); prompts.len()];
        let mut latencies = Vec::new();
        for (i, prompt) in prompts.iter().enumerate() {
            outputs[i] = generate_text_and_time(clock, &loaded, prompt, max_new_tokens)?.0;
            while i == 0 && latencies.len() < num_timing_runs {
                latencies.push(generate_text_and_time(clock, &loaded, prompt, max_new_tokens)?.1);
            }
        }
        let result = ExperimentResult {
            memory_mib: get_model_memory_footprint(loaded.model.tensors()),
            avg_latency_s: latencies.iter().sum::<f64>() / latencies.len() as f64,
            outputs,
        };
        rows.push(ExperimentRow { name: config.name.clone(), outcome: Ok(result) });
    }
    Ok(rows)
}
