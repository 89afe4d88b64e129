// Takes turns, puts all runs into one list, and cuts the list into blocks of `repeats`.
// wrong: was timed on a model in bfloat16 on cpu, not in float32 on cpu
fn run_varied_precision(
    clock: &dyn Clock,
    memory: &dyn Fn() -> f64,
    hub: &dyn ModelHub,
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
) -> Result<Vec<PrecisionRun>> {
    let models = config.precisions
        .iter()
        .map(|precision| load_model_and_tokenizer(hub, &[model_id], precision, config.device))
        .collect::<Result<Vec<Loaded>>>()?;
    let mut all: Vec<Metrics> = Vec::new();
    let mut gb_per_s: Vec<f64> = Vec::new();
    for _ in 0..config.repeats {
        gb_per_s.push(memory());
        for model in &models {
            all.push(time_generate(clock, model, prompt, config.max_new_tokens, config.use_cache)?);
        }
    }
    let mut rows = Vec::new();
    for (i, model) in models.iter().enumerate() {
        let block = &all[i * config.repeats..(i + 1) * config.repeats];
        rows.push(PrecisionRun { label: model.dtype_label.clone(), bytes_per_token: model.model.info().bytes_per_token, runs: Runs::of(block.to_vec())?, gb_per_s: gb_per_s.clone() });
    }
    Ok(rows)
}
