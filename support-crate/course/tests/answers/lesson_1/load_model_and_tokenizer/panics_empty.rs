// Takes for granted that there is a candidate.
// wrong: it panicked: index out of bounds
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
    let _first = candidates[0];
    let mut reasons = Vec::new();
    for &id in candidates {
        match load_one(id) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => reasons.push(format!("{id}: {error}")),
        }
    }
    Err(Error::source(format!("no candidate could be loaded: {}", reasons.join("; "))))
}
