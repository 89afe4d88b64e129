// Falls back to float32 when `resolve_dtype` refuses the name.
// wrong: `float7` is not a precision, but you returned lab/whole
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)
        .unwrap_or_else(|_| ResolvedDtype { dtype: Precision::Float32, label: "float32".to_string() });
    let options = LoadOptions { precision: resolved.dtype, device, ..LoadOptions::default() };
    let mut tried = String::new();
    for &id in candidates {
        if let (Ok(tokenizer), Ok(model)) = (hub.tokenizer(id), hub.model(id, &options)) {
            if let Ok(loaded) = Loaded::new(tokenizer, model, id, resolved.label.clone()) {
                return Ok(loaded);
            }
        }
        tried += &format!(" {id}");
    }
    Err(Error::source(format!("none of these could be loaded:{tried}")))
}
