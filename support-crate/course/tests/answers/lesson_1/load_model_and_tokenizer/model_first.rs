// Opens the weights before the tokenizer, with a match and `continue` for each of the three steps.
// right
fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let ResolvedDtype { dtype, label } = resolve_dtype(requested, device)?;
    let mut failures: Vec<String> = Vec::new();
    let mut index = 0;
    while index < candidates.len() {
        let id = candidates[index];
        index += 1;
        let options = LoadOptions { precision: dtype, device, ..LoadOptions::default() };
        let model = match hub.model(id, &options) {
            Ok(model) => model,
            Err(error) => {
                failures.push(format!("{id} (model: {error})"));
                continue;
            }
        };
        let tokenizer = match hub.tokenizer(id) {
            Ok(tokenizer) => tokenizer,
            Err(error) => {
                failures.push(format!("{id} (tokenizer: {error})"));
                continue;
            }
        };
        match Loaded::new(tokenizer, model, id, label.clone()) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => failures.push(format!("{id} (do not fit: {error})")),
        }
    }
    Err(Error::source(format!("tried {} models in vain: {}", candidates.len(), failures.join("; "))))
}
