// Cuts off the space around the prompt.
// wrong: was timed on another one
fn run_varied_precision(
    clock: &dyn Clock,
    memory: &dyn Fn() -> f64,
    hub: &dyn ModelHub,
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
) -> Result<Vec<PrecisionRun>> {
    let SweepConfig { device, max_new_tokens, use_cache, repeats, .. } = *config;
    let mut models = Vec::new();
    for &requested in &config.precisions {
        models.push(load_model_and_tokenizer(hub, &[model_id], requested, device)?);
    }
    let mut runs = vec![Vec::new(); models.len()];
    let mut gb_per_s: Vec<f64> = Vec::new();
    for _ in 0..repeats {
        gb_per_s.push(memory());
        for (loaded, runs) in models.iter().zip(&mut runs) {
            runs.push(time_generate(clock, loaded, prompt.trim(), max_new_tokens, use_cache)?);
        }
    }
    let mut rows = Vec::new();
    for (loaded, runs) in models.iter().zip(runs) {
        rows.push(PrecisionRun {
            label: loaded.dtype_label.clone(),
            bytes_per_token: loaded.model.info().bytes_per_token,
            runs: Runs::of(runs)?,
            gb_per_s: gb_per_s.clone(),
        });
    }
    Ok(rows)
}
