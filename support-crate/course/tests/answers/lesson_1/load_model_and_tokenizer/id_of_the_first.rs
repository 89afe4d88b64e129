// Keeps going until a candidate loads, but always hands out the first candidate's name.
// wrong: `model_id` is "lab/missing", not "lab/whole-large"
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: resolved.dtype, device, ..LoadOptions::default() };
    let mut last_errors = Vec::new();
    for candidate in candidates {
        let tokenizer = hub.tokenizer(candidate);
        let model = hub.model(candidate, &options);
        let loaded = match (tokenizer, model) {
            (Ok(tokenizer), Ok(model)) => Loaded::new(tokenizer, model, candidates[0], resolved.label.clone()),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        match loaded {
            Ok(loaded) => return Ok(loaded),
            Err(error) => last_errors.push(format!("{candidate}: {error}")),
        }
    }
    Err(Error::source(format!("all candidates failed: {}", last_errors.join(" | "))))
}
