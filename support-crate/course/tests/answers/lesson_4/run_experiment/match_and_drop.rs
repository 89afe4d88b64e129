// Loads with a match, drops the model by name, and has a running mean of the latencies.
// right
fn load_one(hub: &dyn ModelHub, model_id: &str, configuration: &Configuration) -> Result<Loaded> {
    Loaded::new(hub.tokenizer(model_id)?, hub.model(model_id, &configuration.options)?, model_id, &configuration.name)
}

fn texts_and_latency(
    clock: &dyn Clock,
    loaded: &Loaded,
    settings: &ExperimentSettings,
    log: &dyn Fn(&str),
) -> Result<(Vec<String>, f64)> {
    let ExperimentSettings { prompts, max_new_tokens, num_timing_runs, .. } = settings;
    let (max_new_tokens, runs) = (*max_new_tokens, *num_timing_runs);
    let mut texts = vec![];
    for prompt in prompts {
        log(&format!("  Processing prompt: '{:.30}...'", prompt));
        texts.push(generate_text_and_time(clock, loaded, prompt, max_new_tokens)?.0);
    }
    let mut mean = 0.0;
    for run in 1..=runs {
        let (_, latency) = generate_text_and_time(clock, loaded, &prompts[0], max_new_tokens)?;
        mean += (latency - mean) / run as f64;
    }
    Ok((texts, mean))
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
    let mut rows = vec![];
    for configuration in configurations {
        log(&format!("Loading model with configuration: {}", configuration.name));
        let name = configuration.name.clone();
        let loaded = match load_one(hub, model_id, configuration) {
            Ok(loaded) => loaded,
            Err(error) => {
                rows.push(ExperimentRow { name, outcome: Err(error) });
                continue;
            }
        };
        let memory_mib = get_model_memory_footprint(loaded.model.tensors());
        log(&format!("Memory Footprint: {memory_mib:.2} MiB"));
        let measured = texts_and_latency(clock, &loaded, settings, log);
        drop(loaded);
        let outcome = measured.map(|(outputs, avg_latency_s)| ExperimentResult { memory_mib, avg_latency_s, outputs });
        rows.push(ExperimentRow { name, outcome });
    }
    rows
}
