// The other 4-bit type for NF4, which is what transformers takes where none is given.
// wrong: the configuration called NF4 is fp4
fn configurations(device: Device) -> Vec<Configuration> {
    let (precision, baseline) = if device.is_cpu() {
        (Precision::Float32, "FP32 (Baseline CPU)")
    } else {
        (Precision::Float16, "FP16 (Baseline GPU)")
    };
    let formats = [
        (baseline, None),
        ("INT8 (bitsandbytes)", Some(QuantizationConfig::int8())),
        ("NF4 (bitsandbytes, 4-bit)", Some(QuantizationConfig::four_bit(FourBitOptions { quant_type: FourBit::Fp4, ..Default::default() }))),
        ("FP4 (bitsandbytes, 4-bit)", Some(QuantizationConfig::fp4())),
    ];
    let configuration = |(name, quantization): (&str, _)| Configuration {
        name: name.to_owned(),
        options: LoadOptions { precision, device, quantization, ..LoadOptions::default() },
    };
    formats.map(configuration).to_vec()
}
