// The rest of quantized models in bfloat16.
// wrong: two things change at once
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
    let configuration = |(name, quantization): (&str, Option<QuantizationConfig>)| Configuration {
        name: name.to_owned(),
        options: LoadOptions {
            precision: if quantization.is_some() { Precision::BFloat16 } else { precision },
            device,
            quantization,
            ..LoadOptions::default()
        },
    };
    formats.map(configuration).to_vec()
}
