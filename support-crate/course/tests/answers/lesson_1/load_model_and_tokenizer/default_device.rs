// Resolves the precision for the device, then leaves the device to `LoadOptions::default()`.
// wrong: asked for cuda:0, but the model is on cpu
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: resolved.dtype, ..LoadOptions::default() };
    let mut reasons = Vec::new();
    for id in candidates {
        let attempt = || -> Result<Loaded> {
            Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, *id, resolved.label.as_str())
        };
        match attempt() {
            Ok(loaded) => return Ok(loaded),
            Err(error) => reasons.push(format!("{id}: {error}")),
        }
    }
    Err(Error::source(format!("none of the candidates loaded:\n{}", reasons.join("\n"))))
}
