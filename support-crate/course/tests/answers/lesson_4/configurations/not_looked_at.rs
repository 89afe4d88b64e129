// Looks for NaN among no weights, in all four.
// wrong: sets another field
fn configurations(device: Device) -> Vec<Configuration> {
    let (precision, baseline) = if device.is_cpu() {
        (Precision::Float32, "FP32 (Baseline CPU)")
    } else {
        (Precision::Float16, "FP16 (Baseline GPU)")
    };
    let formats = [
        (baseline, None),
        ("INT8 (bitsandbytes)", Some(QuantizationConfig::int8())),
        ("NF4 (bitsandbytes, 4-bit)", Some(QuantizationConfig::nf4())),
        ("FP4 (bitsandbytes, 4-bit)", Some(QuantizationConfig::fp4())),
    ];
    let configuration = |(name, quantization): (&str, _)| Configuration {
        name: name.to_owned(),
        options: LoadOptions { precision, device, quantization, check_finite: !LoadOptions::default().check_finite, ..LoadOptions::default() },
    };
    formats.map(configuration).to_vec()
}
