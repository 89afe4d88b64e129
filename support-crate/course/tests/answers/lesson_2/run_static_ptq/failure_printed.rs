// Prints a warning when the quantized model cannot generate, and returns it nevertheless.
// wrong: generate a few tokens with it first
fn run_static_ptq(
    hub: &dyn ModelHub,
    baseline: &Loaded,
    prompts: &[&str],
    method: CalibrationMethod,
) -> Result<(Loaded, String)> {
    let calibration = calibrate(baseline, prompts, method, Granularity::PerTensor)?;
    let config = QuantizationConfig::static_int8(calibration);
    let label = format!("{config}, rest float32");
    let options = LoadOptions { quantization: Some(config), ..LoadOptions::default() };
    let id = baseline.model_id.as_str();
    let loaded = Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, label)?;
    match generate(&loaded, prompts[0], &GenerateOptions { max_new_tokens: 4, ..GenerateOptions::default() }) {
        Ok(generation) => println!("sample: {}", generation.text),
        Err(error) => println!("warning: no sample, {error}"),
    }
    let line = format!("{} | {}", loaded.model.info().engine, loaded.dtype_label);
    Ok((loaded, line))
}
