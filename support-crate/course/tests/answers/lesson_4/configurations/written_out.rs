// Writes the quantization configs out field by field and changes clones of the baseline's options.
// right
fn configurations(device: Device) -> Vec<Configuration> {
    let on_cpu = device.is_cpu();
    let mut options = LoadOptions::default();
    options.device = device;
    options.precision = if on_cpu { Precision::Float32 } else { Precision::Float16 };
    let with = |config: QuantizationConfig| {
        let mut changed = options.clone();
        changed.quantization = Some(config);
        changed
    };
    let written_out = |method| QuantizationConfig {
        method,
        skip_modules: None,
        head: Head::AsLoaded,
        compute_dtype: Precision::Float32,
    };
    let eight = written_out(QuantizationMethod::LlmInt8 { threshold: 6.0 });
    let four = |quant_type: FourBit| {
        written_out(QuantizationMethod::FourBit(FourBitOptions { quant_type, blocksize: 64, double_quant: false }))
    };
    let rest = if on_cpu { "FP32" } else { "FP16" };
    vec![
        Configuration { name: format!("Baseline ({rest})"), options: options.clone() },
        Configuration { name: "LLM.int8 = INT8".into(), options: with(eight) },
        Configuration { name: "4 bits: NF4".into(), options: with(four(FourBit::Nf4)) },
        Configuration { name: "4 bits: FP4".into(), options: with(four(FourBit::Fp4)) },
    ]
}
