// Goes over an array of names and optional formats.
// right
fn configurations(device: Device) -> Vec<Configuration> {
    let (baseline, precision) = match device {
        Device::Cpu => ("FP32 Baseline", Precision::Float32),
        _ => ("FP16 Baseline", Precision::Float16),
    };
    let mut all = Vec::new();
    for (name, quantization) in [
        (baseline, None),
        ("INT8", Some(QuantizationConfig::int8())),
        ("NF4", Some(QuantizationConfig::nf4())),
        ("FP4", Some(QuantizationConfig::fp4())),
    ] {
        let options = LoadOptions { precision, device, quantization, ..LoadOptions::default() };
        all.push(Configuration { name: name.to_string(), options });
    }
    all
}
