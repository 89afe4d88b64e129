// The first tokenizer that is there, with the first model that is there.
// wrong: text and ids would not match
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: resolved.dtype, device, ..LoadOptions::default() };
    let tokenizer = candidates.iter().find_map(|id| hub.tokenizer(id).ok());
    for &id in candidates {
        if let (Some(tokenizer), Ok(model)) = (&tokenizer, hub.model(id, &options)) {
            return Loaded::new(tokenizer.clone(), model, id, resolved.label);
        }
    }
    Err(Error::source(format!("tried {}", candidates.join(", "))))
}
