// In another order.
// wrong: in its order
fn more_formats() -> Vec<Configuration> {
    let mut all = sorted();
    all.reverse();
    all
}

fn sorted() -> Vec<Configuration> {
    let four_bit = FourBitOptions::default();
    let double = FourBitOptions { double_quant: true, ..four_bit };
    let fine = FourBitOptions { blocksize: 32, ..four_bit };
    let head = QuantizationConfig { head: Head::Int8, ..QuantizationConfig::nf4() };
    let bfloat16 = LoadOptions { precision: Precision::BFloat16, ..LoadOptions::default() };
    vec![
        Configuration::new("BF16", bfloat16),
        Configuration::quantized("NF4, double", QuantizationConfig::four_bit(double)),
        Configuration::quantized("NF4, head INT8", head),
        Configuration::quantized("NF4, blocks of 32", QuantizationConfig::four_bit(fine)),
    ]
}
