// Drops the first of the `repeats` rounds as a warm-up.
// wrong: `repeats` was 4, but a row has 3 runs
fn run_varied_precision(
    clock: &dyn Clock,
    memory: &dyn Fn() -> f64,
    hub: &dyn ModelHub,
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
) -> Result<Vec<PrecisionRun>> {
    let mut models = Vec::new();
    for precision in &config.precisions {
        models.push(load_model_and_tokenizer(hub, &[model_id], precision, config.device)?);
    }
    let mut runs = vec![Vec::new(); models.len()];
    let mut gb_per_s: Vec<f64> = Vec::new();
    for round in 0..config.repeats {
        gb_per_s.push(memory());
        for (model, runs) in models.iter().zip(runs.iter_mut()) {
            let metrics = time_generate(clock, model, prompt, config.max_new_tokens, config.use_cache)?;
            if round > 0 {
                runs.push(metrics);
            }
        }
    }
    let mut rows = Vec::new();
    for (model, runs) in models.iter().zip(runs) {
        rows.push(PrecisionRun { label: model.dtype_label.clone(), bytes_per_token: model.model.info().bytes_per_token, runs: Runs::of(runs)?, gb_per_s: gb_per_s.clone() });
    }
    Ok(rows)
}
