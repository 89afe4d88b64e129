// Times every prompt.
// wrong: only the first prompt is timed
fn run_experiment(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    model_id: &str,
    configurations: &[Configuration],
    prompts: &[&str],
    max_new_tokens: usize,
    num_timing_runs: usize,
) -> Result<Vec<ExperimentRow>> {
    let measure = |configuration: &Configuration| -> Result<ExperimentResult> {
        let model = hub.model(model_id, &configuration.options)?;
        let loaded = Loaded::new(hub.tokenizer(model_id)?, model, model_id, &configuration.name)?;
        let memory_mib = get_model_memory_footprint(loaded.model.tensors());
        let mut outputs = Vec::new();
        for prompt in prompts {
            outputs.push(generate_text_and_time(clock, &loaded, prompt, max_new_tokens)?.0);
            generate_text_and_time(clock, &loaded, prompt, max_new_tokens)?;
        }
        let mut total_s = 0.0;
        for _ in 0..num_timing_runs {
            total_s += generate_text_and_time(clock, &loaded, prompts[0], max_new_tokens)?.1;
        }
        Ok(ExperimentResult { memory_mib, avg_latency_s: total_s / num_timing_runs as f64, outputs })
    };
    let row = |one: &Configuration| ExperimentRow { name: one.name.clone(), outcome: measure(one) };
    Ok(configurations.iter().map(row).collect())
}
