// Generates from all prompts as one batch to see that it works, and keeps the baseline's precision and device.
// right
fn run_static_ptq(
    hub: &dyn ModelHub,
    baseline: &Loaded,
    prompts: &[&str],
    method: CalibrationMethod,
) -> Result<(Loaded, String)> {
    let id = baseline.model_id.as_str();
    let config = QuantizationConfig::static_int8(calibrate(baseline, prompts, method, Granularity::PerTensor)?);
    let label = format!("{config}, rest {}", baseline.dtype_label);
    let options = LoadOptions {
        precision: baseline.model.info().dtype,
        device: baseline.model.info().device,
        quantization: Some(config),
        ..LoadOptions::default()
    };
    let model = hub.model(id, &options)?;
    let tokenizer = hub.tokenizer(id)?;
    let loaded = Loaded::new(tokenizer, model, id, label)?;

    let few = GenerateOptions { max_new_tokens: 3, stop_at_eos: false, ..GenerateOptions::default() };
    for generation in generate_batch(&loaded, prompts, &few)? {
        if generation.tokens.is_empty() {
            return Err(Error::system(format!("the quantized model said nothing after {:?}", generation.prompt)));
        }
    }
    let line = format!("{id} | engine={} | precision={}", loaded.model.info().engine, loaded.dtype_label);
    Ok((loaded, line))
}
