// Does not say what was tried.
// wrong: the error does not name lab/broken
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: resolved.dtype, device, ..LoadOptions::default() };
    let load_one = |id: &str| Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, &resolved.label);
    let mut reasons = Vec::new();
    for &id in candidates {
        match load_one(id) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => reasons.push(format!("{id}: {error}")),
        }
    }
    Err(Error::source(format!("{} models failed", reasons.len())))
}
