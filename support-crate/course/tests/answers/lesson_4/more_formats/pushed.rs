// One by one, each changed from what comes.
// right
fn more_formats() -> Vec<Configuration> {
    let mut all = Vec::new();
    all.push(Configuration {
        name: "BF16".to_string(),
        options: LoadOptions { precision: Precision::BFloat16, ..Default::default() },
    });
    let mut options = FourBitOptions::default();
    options.double_quant = true;
    all.push(Configuration::quantized("NF4, double", QuantizationConfig::four_bit(options)));
    let mut config = QuantizationConfig::nf4();
    config.head = Head::Int8;
    all.push(Configuration::quantized("NF4, head INT8", config));
    let options = FourBitOptions { quant_type: FourBit::Nf4, blocksize: 32, double_quant: false };
    all.push(Configuration::quantized("NF4, blocks of 32", QuantizationConfig::four_bit(options)));
    all
}
