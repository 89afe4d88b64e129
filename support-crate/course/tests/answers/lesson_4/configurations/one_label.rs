// One label for both devices.
// wrong: a table should say which
fn configurations(device: Device) -> Vec<Configuration> {
    let (precision, baseline) = if device.is_cpu() {
        (Precision::Float32, "Baseline")
    } else {
        (Precision::Float16, "Baseline")
    };
    let formats = [
        (baseline, None),
        ("INT8 (bitsandbytes)", Some(QuantizationConfig::int8())),
        ("NF4 (bitsandbytes, 4-bit)", Some(QuantizationConfig::nf4())),
        ("FP4 (bitsandbytes, 4-bit)", Some(QuantizationConfig::fp4())),
    ];
    let configuration = |(name, quantization): (&str, _)| Configuration {
        name: name.to_owned(),
        options: LoadOptions { precision, device, quantization, ..LoadOptions::default() },
    };
    formats.map(configuration).to_vec()
}
