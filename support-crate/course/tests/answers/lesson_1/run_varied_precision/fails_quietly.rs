// Goes on with the other precisions when one cannot be loaded or timed.
// wrong: a model failed in one of the runs, but you returned rows
fn run_varied_precision(
    clock: &dyn Clock,
    memory: &dyn Fn() -> f64,
    hub: &dyn ModelHub,
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
) -> Result<Vec<PrecisionRun>> {
    let models: Vec<Loaded> =
        config.precisions.iter().flat_map(|p| load_model_and_tokenizer(hub, &[model_id], p, config.device)).collect();
    let mut runs: Vec<Vec<Metrics>> = vec![vec![]; models.len()];
    let mut gb_per_s: Vec<f64> = Vec::new();
    for _ in 0..config.repeats {
        gb_per_s.push(memory());
        for (i, model) in models.iter().enumerate() {
            if let Ok(metrics) = time_generate(clock, model, prompt, config.max_new_tokens, config.use_cache) {
                runs[i].push(metrics);
            }
        }
    }
    Ok(models
        .iter()
        .zip(runs)
        .filter_map(|(model, runs)| Some(PrecisionRun { label: model.dtype_label.clone(), bytes_per_token: model.model.info().bytes_per_token, runs: Runs::of(runs).ok()?, gb_per_s: gb_per_s.clone() }))
        .collect())
}
