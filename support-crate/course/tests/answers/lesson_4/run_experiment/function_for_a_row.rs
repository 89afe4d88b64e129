// Has a function for one configuration, which fails with ?, and keeps what it returns.
// right
fn measure_one(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    configuration: &Configuration,
    settings: &ExperimentSettings,
    log: &dyn Fn(&str),
) -> Result<ExperimentResult> {
    let ExperimentSettings { model_id, prompts, max_new_tokens, num_timing_runs } = settings;
    let (max_new_tokens, num_timing_runs) = (*max_new_tokens, *num_timing_runs);
    let tokenizer = hub.tokenizer(model_id)?;
    let model = hub.model(model_id, &configuration.options)?;
    let loaded = Loaded::new(tokenizer, model, model_id, &configuration.name)?;
    let memory_mib = get_model_memory_footprint(loaded.model.tensors());
    log(&format!("Memory Footprint: {memory_mib:.2} MiB"));
    let mut outputs = Vec::new();
    for prompt in prompts {
        log(&format!("  Processing prompt: '{:.30}...'", prompt));
        let (text, _) = generate_text_and_time(clock, &loaded, prompt, max_new_tokens)?;
        outputs.push(text);
    }
    let Some(first) = prompts.first() else {
        return Err(Error::input("there is no prompt"));
    };
    let mut seconds = 0.0;
    for _ in 0..num_timing_runs {
        seconds += generate_text_and_time(clock, &loaded, first, max_new_tokens)?.1;
    }
    Ok(ExperimentResult { memory_mib, avg_latency_s: seconds / num_timing_runs as f64, outputs })
}

fn run_experiment(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    configurations: &[Configuration],
    settings: &ExperimentSettings,
    log: &dyn Fn(&str),
) -> Vec<ExperimentRow> {
    let ExperimentSettings { model_id, prompts, max_new_tokens, num_timing_runs } = settings;
    let (max_new_tokens, num_timing_runs) = (*max_new_tokens, *num_timing_runs);
    let mut rows = Vec::with_capacity(configurations.len());
    for configuration in configurations {
        log(&format!("Loading model with configuration: {}", configuration.name));
        let outcome = measure_one(clock, hub, configuration, settings, log);
        rows.push(ExperimentRow { name: configuration.name.clone(), outcome });
    }
    rows
}
