// Cuts the prompt for the log at byte 30, which panics in the middle of a character.
// wrong: panic
fn run_experiment(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    configurations: &[Configuration],
    settings: &ExperimentSettings,
    log: &dyn Fn(&str),
) -> Vec<ExperimentRow> {
    let mut rows = Vec::new();
    for one in configurations {
        let measure = || -> Result<ExperimentResult> {
            log(&format!("Loading model with configuration: {}", one.name));
            let id = settings.model_id.as_str();
            let loaded = Loaded::new(hub.tokenizer(id)?, hub.model(id, &one.options)?, id, &one.name)?;
            let memory_mib = get_model_memory_footprint(loaded.model.tensors());
            log(&format!("Memory Footprint: {memory_mib:.2} MiB"));
            let mut outputs = Vec::new();
            for prompt in &settings.prompts {
                let end = prompt.len().min(30);
                log(&format!("  Processing prompt: '{}...'", &prompt[..end]));
                outputs.push(generate_text_and_time(clock, &loaded, prompt, settings.max_new_tokens)?.0);
            }
            let mut total = 0.0;
            for _ in 0..settings.num_timing_runs {
                total += generate_text_and_time(clock, &loaded, &settings.prompts[0], settings.max_new_tokens)?.1;
            }
            Ok(ExperimentResult { memory_mib, avg_latency_s: total / settings.num_timing_runs as f64, outputs })
        };
        rows.push(ExperimentRow { name: one.name.clone(), outcome: measure() });
    }
    rows
}
