// Loads the same model each time.
// wrong: labelled
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
    let mut rows = Vec::new();
    for &requested in precisions {
        let loaded = load_model_and_tokenizer(hub, &[model_id], "float32", device)?;
        let runs = repeat(repeats, || time_generate(clock, &loaded, prompt, max_new_tokens, true))?;
        rows.push(PrecisionRun { label: loaded.dtype_label.clone(), runs });
    }
    Ok(rows)
}
