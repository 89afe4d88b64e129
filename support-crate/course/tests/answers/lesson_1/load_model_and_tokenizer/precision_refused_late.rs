// Resolves the precision inside the loop: a refused one is no error at once but a reason of each candidate, after its tokenizer was fetched.
// wrong: resolve the precision before you ask the hub
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let load_one = |id: &str| -> Result<Loaded> {
        let tokenizer = hub.tokenizer(id)?;
        let ResolvedDtype { dtype, label } = resolve_dtype(requested, device)?;
        let options = LoadOptions { precision: dtype, device, ..LoadOptions::default() };
        let model = hub.model(id, &options)?;
        Loaded::new(tokenizer, model, id, label)
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
