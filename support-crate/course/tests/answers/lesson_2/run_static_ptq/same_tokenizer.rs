// Keeps the baseline's tokenizer, and describes itself in other words.
// right
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
    let quantized = Loaded::new(baseline.tokenizer.clone(), hub.model(id, &options)?, id.as_str(), "INT8 (static)")?;
    let few = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
    generate(&quantized, prompts[0], &few)?;
    let info = format!("static INT8 weights and inputs on {}", quantized.model.info().engine);
    Ok((quantized, info))
}
