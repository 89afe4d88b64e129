// Leaves out a precision whose label was already measured, since it would be the same thing twice.
// wrong: 3 precisions were asked for, but 2 came back
fn run_varied_precision(
    clock: &dyn Clock,
    memory: &dyn Fn() -> f64,
    hub: &dyn ModelHub,
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
) -> Result<Vec<PrecisionRun>> {
    let mut models: Vec<Loaded> = Vec::new();
    for precision in &config.precisions {
        let loaded = load_model_and_tokenizer(hub, &[model_id], precision, config.device)?;
        if models.iter().any(|other| other.model.info().dtype == loaded.model.info().dtype) {
            continue;
        }
        models.push(loaded);
    }
    let mut runs: Vec<Vec<Metrics>> = models.iter().map(|_| Vec::new()).collect();
    let mut gb_per_s: Vec<f64> = Vec::new();
    for _ in 0..config.repeats {
        gb_per_s.push(memory());
        for (loaded, runs) in models.iter().zip(&mut runs) {
            runs.push(time_generate(clock, loaded, prompt, config.max_new_tokens, config.use_cache)?);
        }
    }
    models
        .iter()
        .zip(runs)
        .map(|(loaded, runs)| Ok(PrecisionRun { label: loaded.dtype_label.clone(), bytes_per_token: loaded.model.info().bytes_per_token, runs: Runs::of(runs)?, gb_per_s: gb_per_s.clone() }))
        .collect()
}
