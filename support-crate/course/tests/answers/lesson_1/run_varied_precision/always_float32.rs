// Loads the same model each time.
// wrong: was timed on a model in float32 on cpu, not in bfloat16
fn run_varied_precision(
    clock: &dyn Clock,
    memory: &dyn Fn() -> f64,
    hub: &dyn ModelHub,
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
) -> Result<Vec<PrecisionRun>> {
    let mut rows = Vec::new();
    for &requested in &config.precisions {
        let loaded = load_model_and_tokenizer(hub, &[model_id], "float32", config.device)?;
        let runs = repeat(config.repeats, || time_generate(clock, &loaded, prompt, config.max_new_tokens, config.use_cache))?;
        rows.push(PrecisionRun { label: loaded.dtype_label.clone(), bytes_per_token: loaded.model.info().bytes_per_token, runs, gb_per_s: (0..config.repeats).map(|_| memory()).collect() });
    }
    Ok(rows)
}
