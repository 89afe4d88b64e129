// With an iterator, keeping no reasons but the ids.
// right
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: resolved.dtype, device, ..LoadOptions::default() };
    candidates
        .iter()
        .find_map(|&id| {
            let model = hub.model(id, &options).ok()?;
            Loaded::new(hub.tokenizer(id).ok()?, model, id, resolved.label.clone()).ok()
        })
        .ok_or_else(|| Error::source(format!("tried {}", candidates.join(", "))))
}
