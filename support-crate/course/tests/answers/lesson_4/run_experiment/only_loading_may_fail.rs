// Makes a row of a loading error, but lets ? carry an error of a generation out of the function.
// wrong: it panicked
fn run_experiment(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    configurations: &[Configuration],
    settings: &ExperimentSettings,
    log: &dyn Fn(&str),
) -> Vec<ExperimentRow> {
    let ExperimentSettings { model_id, prompts, max_new_tokens, num_timing_runs } = settings;
    let (max_new_tokens, num_timing_runs) = (*max_new_tokens, *num_timing_runs);
    let mut rows = Vec::new();
    for configuration in configurations {
        log(&format!("Loading model with configuration: {}", configuration.name));
        let loaded = hub.tokenizer(model_id).and_then(|tokenizer| {
            Loaded::new(tokenizer, hub.model(model_id, &configuration.options)?, model_id, &configuration.name)
        });
        let outcome = match loaded {
            Err(error) => Err(error),
            Ok(loaded) => {
                let memory_mib = get_model_memory_footprint(loaded.model.tensors());
                log(&format!("Memory Footprint: {memory_mib:.2} MiB"));
                let mut outputs = Vec::new();
                for prompt in prompts {
                    log(&format!("  Processing prompt: '{:.30}...'", prompt));
                    outputs.push(generate_text_and_time(clock, &loaded, prompt, max_new_tokens).unwrap().0);
                }
                let mut total = 0.0;
                for _ in 0..num_timing_runs {
                    total += generate_text_and_time(clock, &loaded, &prompts[0], max_new_tokens).unwrap().1;
                }
                Ok(ExperimentResult { memory_mib, avg_latency_s: total / num_timing_runs as f64, outputs })
            }
        };
        rows.push(ExperimentRow { name: configuration.name.clone(), outcome });
    }
    rows
}
