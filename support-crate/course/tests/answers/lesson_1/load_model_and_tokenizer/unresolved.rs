// Hands the precision on as it was asked for.
// wrong: resolve the precision first
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let precision = requested.parse::<Precision>()?;
    let options = LoadOptions { precision, device, ..LoadOptions::default() };
    for &id in candidates {
        if let (Ok(tokenizer), Ok(model)) = (hub.tokenizer(id), hub.model(id, &options)) {
            return Loaded::new(tokenizer, model, id, precision.to_string());
        }
    }
    Err(Error::source(format!("tried {}", candidates.join(", "))))
}
