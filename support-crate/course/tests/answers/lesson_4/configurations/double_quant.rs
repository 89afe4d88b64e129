// NF4 with double quantization.
// wrong: changes `double_quant`
fn configurations(device: Device) -> Vec<Configuration> {
    let precision = if device.is_cpu() { Precision::Float32 } else { Precision::Float16 };
    let one = |name: &str, quantization: Option<QuantizationConfig>| Configuration {
        name: name.to_owned(),
        options: LoadOptions { precision, device, quantization, ..LoadOptions::default() },
    };
    let mut all = vec![
        one(if device.is_cpu() { "FP32 (Baseline)" } else { "FP16 (Baseline)" }, None),
        one("INT8", Some(QuantizationConfig::int8())),
        one("NF4", Some(QuantizationConfig::four_bit(FourBitOptions { double_quant: true, ..FourBitOptions::default() }))),
        one("FP4", Some(QuantizationConfig::fp4())),
    ];
    
    all
}
