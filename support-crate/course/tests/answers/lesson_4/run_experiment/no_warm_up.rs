// Counts from the first run on, as the Python original.
// wrong: it pays for things that later ones do not
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
        let mut total_s = 0.0;
        for (i, prompt) in prompts.iter().enumerate() {
            log(&format!("  Processing prompt: '{:.30}...'", prompt));
            let runs = if i == 0 { num_timing_runs } else { 1 };
            for run in 0..runs {
                let (text, latency) = generate_text_and_time(clock, &loaded, prompt, max_new_tokens)?;
                if run == 0 {
                    outputs.push(text);
                }
                if i == 0 {
                    total_s += latency;
                }
            }
        }
        Ok(ExperimentResult { memory_mib, avg_latency_s: total_s / num_timing_runs as f64, outputs })
    };
    let row = |one: &Configuration| ExperimentRow { name: one.name.clone(), outcome: measure(one) };
    configurations.iter().map(row).collect()
}
