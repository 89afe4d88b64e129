// Names that say what the rest is.
// right
fn configurations(device: Device) -> Vec<Configuration> {
    let precision = if device.is_cpu() { Precision::Float32 } else { Precision::Float16 };
    let one = |name: &str, quantization: Option<QuantizationConfig>| Configuration {
        name: name.to_owned(),
        options: LoadOptions { precision, device, quantization, ..LoadOptions::default() },
    };
    let mut all = vec![
        one(if device.is_cpu() { "FP32 (Baseline)" } else { "FP16 (Baseline)" }, None),
        one("INT8, rest as loaded (FP32/FP16)", Some(QuantizationConfig { compute_dtype: Precision::BFloat16, ..QuantizationConfig::int8() })),
        one("NF4 (4 bits, no INT8)", Some(QuantizationConfig::nf4())),
        one("FP4 (4 bits, not NF4)", Some(QuantizationConfig::fp4())),
    ];
    
    all
}
