// Gives up at the first candidate.
// wrong: there is no model `lab/missing`
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: resolved.dtype, device, ..LoadOptions::default() };
    for &id in candidates {
        return Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, resolved.label);
    }
    Err(Error::source("tried none"))
}
