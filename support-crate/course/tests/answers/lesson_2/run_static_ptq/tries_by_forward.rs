// Sees that it generates with token ids, and in the precision of the baseline.
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
    let options = LoadOptions { quantization: Some(quantization), precision: baseline.model.info().dtype, ..LoadOptions::default() };
    let id = &baseline.model_id;
    let quantized = Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, label)?;
    let few = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
    let ids = [quantized.tokenizer.encode("A fox")?];
    generate_tokens(&*quantized.model, &ids, &few, &mut |_, _| ())?;
    let info = format!("{} | {}, {method}", quantized.model.info().engine, quantized.dtype_label);
    Ok((quantized, info))
}
