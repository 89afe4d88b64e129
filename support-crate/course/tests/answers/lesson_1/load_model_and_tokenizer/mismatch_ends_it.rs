// Goes on to the next candidate when a half cannot be opened, but puts the halves together with `?`.
// wrong: "lab/unfit", "lab/whole"] fail, but you returned an error: the tokenizer of lab/unfit
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: resolved.dtype, device, ..LoadOptions::default() };
    let mut errors = Vec::new();
    for &id in candidates {
        let halves = hub.tokenizer(id).and_then(|tokenizer| Ok((tokenizer, hub.model(id, &options)?)));
        match halves {
            Ok((tokenizer, model)) => return Ok(Loaded::new(tokenizer, model, id, &resolved.label)?),
            Err(error) => errors.push(format!("{id}: {error}")),
        }
    }
    Err(Error::source(format!("none could be loaded: {}", errors.join(", "))))
}
