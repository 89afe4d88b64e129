// Loads all and keeps the last.
// wrong: yet lab/other was loaded too
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: resolved.dtype, device, ..LoadOptions::default() };
    let mut loaded = Err(Error::source(format!("tried {}", candidates.join(", "))));
    for &id in candidates.iter().rev() {
        if let (Ok(tokenizer), Ok(model)) = (hub.tokenizer(id), hub.model(id, &options)) {
            loaded = Loaded::new(tokenizer, model, id, &resolved.label);
        }
    }
    loaded
}
