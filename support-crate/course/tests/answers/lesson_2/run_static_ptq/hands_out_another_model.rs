// Tries one quantized model and hands out another one, loaded afresh and never seen to generate.
// wrong: the model was loaded 2 times
fn run_static_ptq(
    hub: &dyn ModelHub,
    baseline: &Loaded,
    prompts: &[&str],
    method: CalibrationMethod,
) -> Result<(Loaded, String)> {
    let calibration = calibrate(baseline, prompts, method, Granularity::PerTensor)?;
    let config = QuantizationConfig::static_int8(calibration);
    let id = baseline.model_id.as_str();
    let options = LoadOptions { quantization: Some(config.clone()), ..LoadOptions::default() };
    let load = || Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, config.to_string());
    let few = GenerateOptions { max_new_tokens: 4, ..GenerateOptions::default() };
    generate(&load()?, "One day", &few)?;
    let loaded = load()?;
    let line = format!("{} | {}", loaded.model.info().engine, loaded.dtype_label);
    Ok((loaded, line))
}
