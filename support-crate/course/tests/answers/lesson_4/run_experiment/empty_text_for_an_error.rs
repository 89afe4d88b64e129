// Puts an empty text where a generation fails, and skips runs that fail.
// wrong: 0 rows say so
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
            let outputs: Vec<String> = prompts
                .iter()
                .map(|prompt| {
                    log(&format!("  Processing prompt: '{prompt:.30}...'"));
                    generate_text_and_time(clock, &loaded, prompt, max_new_tokens).map(|(text, _)| text).unwrap_or_default()
                })
                .collect();
            let latencies: Vec<f64> = (0..num_timing_runs)
                .filter_map(|_| generate_text_and_time(clock, &loaded, &prompts[0], max_new_tokens).ok())
                .map(|(_, latency)| latency)
                .collect();
            let avg_latency_s = latencies.iter().sum::<f64>() / latencies.len() as f64;
            Ok(ExperimentResult { memory_mib, avg_latency_s, outputs })
        };
        rows.push(ExperimentRow { name: configuration.name.clone(), outcome: run() });
    }
    rows
}
