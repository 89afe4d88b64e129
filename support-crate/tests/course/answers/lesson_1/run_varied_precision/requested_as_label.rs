// Labels rows with what was asked for.
// wrong: use the label of what was loaded
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
        let runs = repeat(repeats, || time_generate(clock, &loaded, prompt, max_new_tokens, true))?;
        rows.push(PrecisionRun { label: requested.to_owned(), runs });
    }
    Ok(rows)
}
