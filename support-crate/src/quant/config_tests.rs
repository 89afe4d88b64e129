use serde_json::json;

use super::*;
use crate::quant::{CalibrationMethod, Calibrator, Granularity, HessianCollector};

#[test]
fn what_is_written_is_read() {
    let double = FourBitOptions { quant_type: FourBit::Fp4, double_quant: true, ..FourBitOptions::default() };
    for config in [
        QuantizationConfig::int8(),
        QuantizationConfig::llm_int8(0.0),
        QuantizationConfig::nf4(),
        QuantizationConfig {
            skip_modules: Some(vec!["lm_head".to_owned(), "c_proj".to_owned()]),
            compute_dtype: Precision::BFloat16,
            ..QuantizationConfig::four_bit(double)
        },
        QuantizationConfig {
            head: Head::AsLayers,
            skip_modules: Some(vec!["c_proj".to_owned()]),
            ..QuantizationConfig::int8()
        },
        QuantizationConfig { head: Head::Int8, skip_modules: Some(vec![]), ..QuantizationConfig::nf4() },
    ] {
        assert_eq!(QuantizationConfig::from_json(&config.to_json().unwrap()).unwrap(), config);
    }
}

#[test]
fn what_is_not_understood_is_named() {
    for (value, expected) in [
        (json!({ "quant_method": "gptq", "bits": 4 }), "\"gptq\""),
        (json!({ "load_in_4bit": true, "bnb_4bit_quant_type": "nf3" }), "nf3"),
        (json!({ "load_in_4bit": true, "load_in_8bit": true }), "both true"),
        (json!({}), "both false"),
        (json!({ "load_in_8bit": true, "llm_int8_threshold": -1.0 }), "threshold cannot be -1"),
        (json!({ "load_in_8bit": 3 }), "`quantization_config`"),
        (json!({ "load_in_8bit": true, "head": "int4" }), "`head` is \"int4\""),
        (json!({ "load_in_4bit": true, "bnb_4bit_quant_storage": "bfloat16" }), "bnb_4bit_quant_storage"),
    ] {
        let error = QuantizationConfig::from_json(&value).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let config = QuantizationConfig::four_bit(FourBitOptions { blocksize: 48, ..FourBitOptions::default() });
    assert!(config.check().unwrap_err().to_string().contains("48"));
    assert!(QuantizationConfig::int4(16).check().unwrap_err().to_string().contains("groups cannot have 16"));
}

#[test]
fn layers_are_skipped_by_their_names() {
    let skip = |names: &[&str]| QuantizationConfig {
        skip_modules: Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..QuantizationConfig::nf4()
    };
    let layer = "transformer.h.1.attn.c_attn";
    let quantizes = |names: &[&str], layer| skip(names).layer(layer).is_some();
    assert!(quantizes(&[], layer) && !quantizes(&[], "lm_head"));
    assert!(!quantizes(&[layer], layer));
    assert!(!quantizes(&["transformer.h.1"], layer));
    assert!(!quantizes(&["attn"], layer) && !quantizes(&["c_attn"], layer));
    assert!(quantizes(&["transformer.h.10"], layer));
    let modules = [layer.to_owned()];
    assert!(skip(&["attn", "lm_head"]).check_modules(&modules).is_ok());
    let error = skip(&["attn", "mlp"]).check_modules(&modules).unwrap_err().to_string();
    assert!(error.contains("`mlp`") && error.contains(layer), "{error}");
}

#[test]
fn the_head_is_an_option() {
    let with = |head| QuantizationConfig { head, ..QuantizationConfig::nf4() };
    let layer = |head| with(head).layer("lm_head").cloned();
    assert_eq!(layer(Head::AsLoaded), None);
    assert_eq!(layer(Head::Int8), Some(QuantizationMethod::LlmInt8 { threshold: 0.0 }));
    assert!(matches!(layer(Head::AsLayers), Some(QuantizationMethod::FourBit(_))));
}

#[test]
fn static_int8_is_int8_with_a_calibration() {
    let mut calibrator = Calibrator::new(CalibrationMethod::AbsMax, Granularity::PerTensor).unwrap();
    calibrator.observe("h.0", &[1.0_f32, 2.0], 2).unwrap();
    let config = QuantizationConfig::static_int8(calibrator.finish().unwrap());
    assert!(config.check().is_ok());
    assert_eq!(config.to_string(), "static int8");
    assert!(config.check_modules(&["h.0".to_owned()]).is_ok());
    assert!(config.check_modules(&["h.1".to_owned()]).unwrap_err().to_string().contains("calibration"));
    // bitsandbytes would take the weights for those of int8.
    assert!(config.to_json().unwrap_err().to_string().contains("static int8"));
}

#[test]
fn how_codes_are_chosen_is_said_after_the_format() {
    let mut collector = HessianCollector::default();
    collector.observe("h.0.c_fc", &[1.0, 2.0], 2).unwrap();
    let hessians = collector.finish().unwrap();
    let gptq = QuantizationConfig::gptq(hessians.clone(), 64);
    assert_eq!(gptq.to_string(), "int4-64, gptq");
    assert_eq!(
        QuantizationConfig { head: Head::Int8, ..QuantizationConfig::hqq(32) }.to_string(),
        "int4-32, hqq, head int8"
    );
    let options = GptqOptions { act_order: false, clipping: true };
    let both = QuantizationConfig::affine(3, 64, Rounding::Gptq(hessians, options));
    assert_eq!(both.to_string(), "int3-64, gptq clipped without act_order");
    // A clone is the same Hessians, and cheap.
    assert!(gptq == gptq.clone() && gptq != both);
    for bits in [0, 1, 5, 64] {
        let text = QuantizationConfig::affine(bits, 64, Rounding::Nearest).check().unwrap_err().to_string();
        assert!(text.contains("2, 3 or 4"), "{text}");
    }
    let text = gptq.check_modules(&["h.0.c_proj".to_owned()]).unwrap_err().to_string();
    assert!(text.contains("`h.0.c_fc`") && text.contains("another model"), "{text}");
}
