// Generates a few tokens at the end, from the model that was passed in.
// wrong: generate a few tokens with it first
fn run_static_ptq(
    hub: &dyn ModelHub,
    baseline: &Loaded,
    prompts: &[&str],
    method: CalibrationMethod,
) -> Result<(Loaded, String)> {
    let calibration = calibrate(baseline, prompts, method, Granularity::PerTensor)?;
    let config = QuantizationConfig::static_int8(calibration);
    let label = config.to_string();
    let options = LoadOptions { quantization: Some(config), ..LoadOptions::default() };
    let id = baseline.model_id.as_str();
    let tokenizer = hub.tokenizer(id)?;
    let model = hub.model(id, &options)?;
    let loaded = Loaded::new(tokenizer, model, id, label)?;
    let check = generate(baseline, prompts[0], &GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() })?;
    if check.tokens.is_empty() {
        return Err(Error::system("nothing was generated"));
    }
    let line = format!("{} | {}", loaded.model.info().engine, loaded.dtype_label);
    Ok((loaded, line))
}
