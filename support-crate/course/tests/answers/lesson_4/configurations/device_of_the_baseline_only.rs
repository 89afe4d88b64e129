// Gives the quantized rows the baseline's precision, and everything else by default.
// wrong: asked for cuda:0
fn configurations(device: Device) -> Vec<Configuration> {
    let (baseline, precision) =
        if device.is_cpu() { ("FP32 (Baseline)", Precision::Float32) } else { ("FP16 (Baseline)", Precision::Float16) };
    let mut all = vec![Configuration {
        name: baseline.to_owned(),
        options: LoadOptions { precision, device, ..LoadOptions::default() },
    }];
    let formats = [QuantizationConfig::int8(), QuantizationConfig::nf4(), QuantizationConfig::fp4()];
    for (name, format) in ["INT8", "NF4", "FP4"].iter().zip(formats) {
        let options = LoadOptions { precision, quantization: Some(format), ..LoadOptions::default() };
        all.push(Configuration { name: name.to_string(), options });
    }
    all
}
