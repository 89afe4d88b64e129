// Returns the model without having run it.
// wrong: generate a few tokens with it first
fn run_static_ptq(
    hub: &dyn ModelHub,
    baseline: &Loaded,
    prompts: &[&str],
    method: CalibrationMethod,
) -> Result<(Loaded, String)> {
    let calibration = calibrate(baseline, prompts, method, Granularity::PerTensor)?;
    let quantization = QuantizationConfig::static_int8(calibration);
    let label = format!("{quantization}, rest {}", baseline.dtype_label);
    let options = LoadOptions { quantization: Some(quantization), ..LoadOptions::default() };
    let id = &baseline.model_id;
    let quantized = Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, label)?;
    let few = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
    let info = format!("{} | {}, {method}", quantized.model.info().engine, quantized.dtype_label);
    Ok((quantized, info))
}
