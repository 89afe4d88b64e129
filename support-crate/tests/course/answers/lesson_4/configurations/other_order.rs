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
    all.push(quantized("int8", QuantizationConfig { load_in_8bit: true, ..Default::default() }));
    all.push(quantized("fp-4", QuantizationConfig { load_in_4bit: true, ..Default::default() }));
    all.push(quantized(
        "nf4",
        QuantizationConfig {
            load_in_4bit: true,
            bnb_4bit_quant_type: FourBit::Nf4,
            llm_int8_skip_modules: Some(vec!["lm_head".to_owned()]),
            ..Default::default()
        },
    ));
    all
}
