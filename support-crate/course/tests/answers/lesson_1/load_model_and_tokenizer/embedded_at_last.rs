// Takes the embedded model when no candidate can be loaded.
// wrong: nothing can be loaded, but you returned embedded
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let ResolvedDtype { dtype, label } = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: dtype, device, ..LoadOptions::default() };
    let load_one = |id: &str| {
        let (tokenizer, model) = (hub.tokenizer(id)?, hub.model(id, &options)?);
        Loaded::new(tokenizer, model, id, &label)
    };
    let mut reasons = Vec::new();
    for &id in candidates {
        match load_one(id) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => reasons.push(format!("{id}: {error}")),
        }
    }
    if let Ok(loaded) = load_one("embedded") {
        return Ok(loaded);
    }
    Err(Error::source(format!("no candidate could be loaded: {}", reasons.join("; "))))
}
