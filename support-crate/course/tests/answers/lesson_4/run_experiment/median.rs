// Takes the median of the latencies, as lesson 1 does, by the library's Statistics.
// wrong: that is the median
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
        let run = || -> Result<ExperimentResult> {
            let loaded = Loaded::new(
                hub.tokenizer(model_id)?,
                hub.model(model_id, &configuration.options)?,
                model_id,
                &configuration.name,
            )?;
            let memory_mib = get_model_memory_footprint(loaded.model.tensors());
            log(&format!("Memory Footprint: {memory_mib:.2} MiB"));
            let mut outputs = Vec::new();
            for prompt in prompts {
                log(&format!("  Processing prompt: '{:.30}...'", prompt));
                outputs.push(generate_text_and_time(clock, &loaded, prompt, max_new_tokens)?.0);
            }
            let mut latencies = Vec::new();
            for _ in 0..num_timing_runs {
                latencies.push(generate_text_and_time(clock, &loaded, &prompts[0], max_new_tokens)?.1);
            }
            let avg_latency_s = Statistics::of(&latencies)?.median;
            Ok(ExperimentResult { memory_mib, avg_latency_s, outputs })
        };
        rows.push(ExperimentRow { name: configuration.name.clone(), outcome: run() });
    }
    rows
}
