// Takes float16 if the device is Cuda(0), else float32.
// wrong: on cuda:1 the baseline is in float32
fn configurations(device: Device) -> Vec<Configuration> {
    let (baseline, precision) = if device == Device::Cuda(0) {
        ("FP16 (Baseline)", Precision::Float16)
    } else {
        ("FP32 (Baseline)", Precision::Float32)
    };
    let one = |name: &str, quantization: Option<QuantizationConfig>| Configuration {
        name: name.to_owned(),
        options: LoadOptions { precision, device, quantization, ..LoadOptions::default() },
    };
    vec![
        one(baseline, None),
        one("INT8", Some(QuantizationConfig::int8())),
        one("NF4", Some(QuantizationConfig::nf4())),
        one("FP4", Some(QuantizationConfig::fp4())),
    ]
}
