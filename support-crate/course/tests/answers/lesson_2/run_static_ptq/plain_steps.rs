// Does the three steps in the order of the text, with the shortest label, and tests with a prompt of its own.
// right
fn run_static_ptq(
    hub: &dyn ModelHub,
    baseline: &Loaded,
    prompts: &[&str],
    method: CalibrationMethod,
) -> Result<(Loaded, String)> {
    // 1
    let calibration = calibrate(baseline, prompts, method, Granularity::PerTensor)?;
    // 2
    let quantization = QuantizationConfig::static_int8(calibration);
    let name = quantization.to_string();
    let mut options = LoadOptions::default();
    options.quantization = Some(quantization);
    let tokenizer = hub.tokenizer(&baseline.model_id)?;
    let model = hub.model(&baseline.model_id, &options)?;
    let quantized = Loaded::new(tokenizer, model, baseline.model_id.clone(), name.clone())?;
    // 3
    let test = GenerateOptions { max_new_tokens: 5, ..GenerateOptions::default() };
    let said = generate(&quantized, "Hello", &test)?;
    println!("it speaks: Hello{}", said.text);
    let engine = quantized.model.info().engine;
    Ok((quantized, format!("{engine}: {name}")))
}
