// Lets the models take turns, every second round in reverse order, with index loops.
// right
fn run_varied_precision(
    clock: &dyn Clock,
    memory: &dyn Fn() -> f64,
    hub: &dyn ModelHub,
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
) -> Result<Vec<PrecisionRun>> {
    let mut models: Vec<Loaded> = Vec::new();
    for name in &config.precisions {
        models.push(load_model_and_tokenizer(hub, &[model_id], name, config.device)?);
    }
    let mut collected: Vec<Vec<Metrics>> = vec![Vec::new(); models.len()];
    let mut gb_per_s: Vec<f64> = Vec::new();
    for round in 0..config.repeats {
        gb_per_s.push(memory());
        for step in 0..models.len() {
            let i = if round % 2 == 0 { step } else { models.len() - 1 - step };
            collected[i].push(time_generate(clock, &models[i], prompt, config.max_new_tokens, config.use_cache)?);
        }
    }
    let mut rows = Vec::new();
    for i in 0..models.len() {
        rows.push(PrecisionRun { label: models[i].dtype_label.clone(), bytes_per_token: models[i].model.info().bytes_per_token, runs: Runs::of(collected[i].clone())?, gb_per_s: gb_per_s.clone() });
    }
    Ok(rows)
}
