// Loads each model anew in every round, between the timed runs, instead of loading all first.
// wrong: were made on several models
fn run_varied_precision(
    clock: &dyn Clock,
    memory: &dyn Fn() -> f64,
    hub: &dyn ModelHub,
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
) -> Result<Vec<PrecisionRun>> {
    let n = config.precisions.len();
    let mut runs = vec![Vec::new(); n];
    let mut facts = vec![(String::new(), 0_usize); n];
    let mut gb_per_s: Vec<f64> = Vec::new();
    for _ in 0..config.repeats {
        gb_per_s.push(memory());
        for (i, requested) in config.precisions.iter().enumerate() {
            let loaded = load_model_and_tokenizer(hub, &[model_id], requested, config.device)?;
            runs[i].push(time_generate(clock, &loaded, prompt, config.max_new_tokens, config.use_cache)?);
            facts[i] = (loaded.dtype_label.clone(), loaded.model.info().bytes_per_token);
        }
    }
    let mut rows = Vec::new();
    for ((label, bytes_per_token), runs) in facts.into_iter().zip(runs) {
        rows.push(PrecisionRun { label, bytes_per_token, runs: Runs::of(runs)?, gb_per_s: gb_per_s.clone() });
    }
    Ok(rows)
}
