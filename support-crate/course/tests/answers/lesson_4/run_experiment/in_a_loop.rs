// In the order of the Python original, with a warm-up of its own and a match.
// right
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
    for config in configurations {
        log(&format!("Loading model with configuration: {}", config.name));
        let tokenizer = hub.tokenizer(model_id);
        let model = hub.model(model_id, &config.options);
        let loaded = tokenizer.and_then(|tokenizer| Loaded::new(tokenizer, model?, model_id.clone(), ""));
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                rows.push(ExperimentRow { name: config.name.clone(), outcome: Err(error) });
                continue;
            }
        };
        let mut outputs = vec![String::new(); prompts.len()];
        let mut latencies = Vec::new();
        let mut failed = None;
        for (i, prompt) in prompts.iter().enumerate() {
            log(&format!("  Processing prompt: '{:.30}...'", prompt));
            for run in 0..if i == 0 { num_timing_runs + 1 } else { 1 } {
                match generate_text_and_time(clock, &loaded, prompt, max_new_tokens) {
                    Ok((text, _)) if run == 0 => outputs[i] = text,
                    Ok((_, latency)) => latencies.push(latency),
                    Err(error) => failed = Some(error),
                }
            }
        }
        let memory_mib = get_model_memory_footprint(loaded.model.tensors());
        log(&format!("Memory Footprint: {memory_mib:.3} MiB"));
        let result = ExperimentResult {
            memory_mib,
            avg_latency_s: latencies.iter().sum::<f64>() / latencies.len() as f64,
            outputs,
        };
        rows.push(ExperimentRow { name: config.name.clone(), outcome: failed.map_or(Ok(result), Err) });
    }
    rows
}
