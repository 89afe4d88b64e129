// FP4 before NF4: the tables below would call one by the other's name.
// wrong: the tables below rely on the order
fn configurations(device: Device) -> Vec<Configuration> {
    let base = LoadOptions { device, ..LoadOptions::default() };
    let base = if device.is_cpu() {
        base
    } else {
        LoadOptions { precision: Precision::Float16, ..base }
    };
    let quantized = |name: &str, config: QuantizationConfig| Configuration {
        name: String::from(name),
        options: LoadOptions { quantization: Some(config), ..base.clone() },
    };
    let mut all = vec![Configuration { name: format!("{} (baseline, {device})", base.precision), options: base.clone() }];
    all.push(quantized("int8", QuantizationMethod::LlmInt8 { threshold: 6.0 }.into()));
    all.push(quantized("fp-4", QuantizationConfig::fp4()));
    all.push(quantized(
        "nf4",
        QuantizationConfig {
            skip_modules: Some(vec!["lm_head".to_owned()]),
            ..QuantizationConfig::four_bit(FourBitOptions::default())
        },
    ));
    all
}
