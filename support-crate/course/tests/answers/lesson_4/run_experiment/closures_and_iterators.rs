// Does everything with iterators and a closure for one configuration.
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
    let once = |loaded: &Loaded, prompt: &str| {
        generate_text_and_time(clock, loaded, prompt, max_new_tokens)
    };
    let first = |loaded: &Loaded, prompt: &str| {
        log(&format!("Processing prompt: {prompt}"));
        Ok(once(loaded, prompt)?.0)
    };
    let row = |configuration: &Configuration| -> Result<ExperimentResult> {
        log(&format!("Loading model with configuration: {}", configuration.name));
        let loaded = Loaded::new(
            hub.tokenizer(model_id)?,
            hub.model(model_id, &configuration.options)?,
            model_id,
            &configuration.name,
        )?;
        let outputs = prompts.iter().map(|prompt| first(&loaded, prompt)).collect::<Result<Vec<String>>>()?;
        let latencies = (0..num_timing_runs).map(|_| Ok(once(&loaded, &prompts[0])?.1)).collect::<Result<Vec<f64>>>()?;
        let memory = get_model_memory_footprint(loaded.model.tensors());
        log(&format!("Memory Footprint: {memory} MiB"));
        Ok(ExperimentResult {
            avg_latency_s: latencies.iter().sum::<f64>() / latencies.len() as f64,
            memory_mib: get_model_memory_footprint(loaded.model.tensors()),
            outputs,
        })
    };
    configurations.iter().map(|one| ExperimentRow { name: one.name.clone(), outcome: row(one) }).collect()
}
