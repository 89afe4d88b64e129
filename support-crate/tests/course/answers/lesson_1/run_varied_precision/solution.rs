// As in the notebook: the models take turns.
// right
fn run_varied_precision(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    model_id: &str,
    device: Device,
    precisions: &[&str],
    prompt: &str,
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<PrecisionRun>> {
    let mut models = Vec::new();
    for &requested in precisions {
        models.push(load_model_and_tokenizer(hub, &[model_id], requested, device)?);
    }
    let mut runs = vec![Vec::new(); models.len()];
    for _ in 0..repeats {
        for (loaded, runs) in models.iter().zip(&mut runs) {
            runs.push(time_generate(clock, loaded, prompt, max_new_tokens, true)?);
        }
    }
    let row = |(loaded, runs): (&Loaded, _)| Ok(PrecisionRun { label: loaded.dtype_label.clone(), runs: Runs::of(runs)? });
    models.iter().zip(runs).map(row).collect()
}
