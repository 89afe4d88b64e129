// Counts the time of the first prompt's first generation among the timed runs and makes one run less.
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
            let mut latencies = Vec::new();
            for (i, prompt) in prompts.iter().enumerate() {
                log(&format!("  Processing prompt: '{:.30}...'", prompt));
                let (text, latency) = generate_text_and_time(clock, &loaded, prompt, max_new_tokens)?;
                outputs.push(text);
                if i == 0 {
                    latencies.push(latency);
                }
            }
            while latencies.len() < num_timing_runs {
                latencies.push(generate_text_and_time(clock, &loaded, &prompts[0], max_new_tokens)?.1);
            }
            let avg_latency_s = latencies.iter().sum::<f64>() / latencies.len() as f64;
            Ok(ExperimentResult { memory_mib, avg_latency_s, outputs })
        };
        rows.push(ExperimentRow { name: configuration.name.clone(), outcome: run() });
    }
    rows
}
