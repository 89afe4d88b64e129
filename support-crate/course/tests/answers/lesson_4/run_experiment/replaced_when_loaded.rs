// Keeps the current model in a variable outside the loop and assigns the next one to it.
// wrong: was loaded while the first was still there
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
    let mut current: Option<Loaded> = None;
    for configuration in configurations {
        log(&format!("Loading model with configuration: {}", configuration.name));
        let mut run = || -> Result<ExperimentResult> {
            // the old model is dropped here
            current = Some(Loaded::new(
                hub.tokenizer(model_id)?,
                hub.model(model_id, &configuration.options)?,
                model_id,
                &configuration.name,
            )?);
            let loaded = current.as_ref().ok_or_else(|| Error::input("no model"))?;
            let memory_mib = get_model_memory_footprint(loaded.model.tensors());
            log(&format!("Memory Footprint: {memory_mib:.2} MiB"));
            let mut outputs = Vec::new();
            for prompt in prompts {
                log(&format!("  Processing prompt: '{:.30}...'", prompt));
                outputs.push(generate_text_and_time(clock, loaded, prompt, max_new_tokens)?.0);
            }
            let mut total = 0.0;
            for _ in 0..num_timing_runs {
                total += generate_text_and_time(clock, loaded, &prompts[0], max_new_tokens)?.1;
            }
            Ok(ExperimentResult { memory_mib, avg_latency_s: total / num_timing_runs as f64, outputs })
        };
        let outcome = run();
        rows.push(ExperimentRow { name: configuration.name.clone(), outcome });
    }
    rows
}
