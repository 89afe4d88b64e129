// Forgets the precision of what is not quantized; on a CPU the default happens to be right.
// wrong: then two things change at once
fn configurations(device: Device) -> Vec<Configuration> {
    let (precision, name) = match device {
        Device::Cpu => (Precision::Float32, "FP32 (Baseline CPU)"),
        Device::Cuda(_) => (Precision::Float16, "FP16 (Baseline GPU)"),
    };
    let quantized = |name: &str, config| Configuration {
        name: name.to_owned(),
        options: LoadOptions { device, quantization: Some(config), ..LoadOptions::default() },
    };
    vec![
        Configuration { name: name.to_owned(), options: LoadOptions { precision, device, ..LoadOptions::default() } },
        quantized("INT8", QuantizationConfig::int8()),
        quantized("NF4", QuantizationConfig::nf4()),
        quantized("FP4", QuantizationConfig::fp4()),
    ]
}
