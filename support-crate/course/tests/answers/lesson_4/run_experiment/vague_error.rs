// Forgets why.
// wrong: its row says only
fn run_experiment(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    configurations: &[Configuration],
    settings: &ExperimentSettings,
    log: &dyn Fn(&str),
) -> Vec<ExperimentRow> {
    let ExperimentSettings { model_id, prompts, max_new_tokens, num_timing_runs } = settings;
    let (max_new_tokens, num_timing_runs) = (*max_new_tokens, *num_timing_runs);
    let measure = |configuration: &Configuration| -> Result<ExperimentResult> {
        log(&format!("Loading model with configuration: {}", configuration.name));
        let model = hub.model(model_id, &configuration.options)?;
        let loaded = Loaded::new(hub.tokenizer(model_id)?, model, model_id, &configuration.name)?;
        let memory_mib = get_model_memory_footprint(loaded.model.tensors());
        log(&format!("Memory Footprint: {memory_mib:.2} MiB"));
        let mut outputs = Vec::new();
        for prompt in prompts {
            log(&format!("  Processing prompt: '{:.30}...'", prompt));
            outputs.push(generate_text_and_time(clock, &loaded, prompt, max_new_tokens)?.0);
        }
        let mut total_s = 0.0;
        for _ in 0..num_timing_runs {
            total_s += generate_text_and_time(clock, &loaded, &prompts[0], max_new_tokens)?.1;
        }
        Ok(ExperimentResult { memory_mib, avg_latency_s: total_s / num_timing_runs as f64, outputs })
    };
    let row = |one: &Configuration| ExperimentRow { name: one.name.clone(), outcome: measure(one).map_err(|_| Error::system("failed")) };
    configurations.iter().map(row).collect()
}
