// Quantized models on libtorch.
// wrong: a different `engine`
fn configurations(device: Device) -> Vec<Configuration> {
    let precision = if device.is_cpu() { Precision::Float32 } else { Precision::Float16 };
    let one = |name: &str, quantization: Option<QuantizationConfig>| Configuration {
        name: name.to_owned(),
        options: LoadOptions { precision, device, engine: quantization.is_some().then_some(Engine::Tch), quantization, ..LoadOptions::default() },
    };
    let mut all = vec![
        one(if device.is_cpu() { "FP32 (Baseline)" } else { "FP16 (Baseline)" }, None),
        one("INT8", Some(QuantizationConfig::int8())),
        one("NF4", Some(QuantizationConfig::nf4())),
        one("FP4", Some(QuantizationConfig::fp4())),
    ];
    
    all
}
