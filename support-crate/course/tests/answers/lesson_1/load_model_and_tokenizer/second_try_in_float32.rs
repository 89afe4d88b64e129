// If a model does not load in the resolved precision, tries it again in float32 and keeps the label.
// wrong: nothing can be loaded, but you returned lab/float32-only
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let ResolvedDtype { dtype, label } = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: dtype, device, ..LoadOptions::default() };
    let plain = LoadOptions { precision: Precision::Float32, device, ..LoadOptions::default() };
    let load_one = |id: &str| -> Result<Loaded> {
        let tokenizer = hub.tokenizer(id)?;
        let model = hub.model(id, &options).or_else(|_| hub.model(id, &plain))?;
        Loaded::new(tokenizer, model, id, &label)
    };
    let mut reasons = Vec::new();
    for &id in candidates {
        match load_one(id) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => reasons.push(format!("{id}: {error}")),
        }
    }
    Err(Error::source(format!("no candidate could be loaded: {}", reasons.join("; "))))
}
