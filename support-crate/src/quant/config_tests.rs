use serde_json::json;

use super::*;
use crate::quant::{CalibrationMethod, Calibrator, Granularity};

#[test]
fn what_is_written_is_read() {
    for config in [
        QuantizationConfig::int8(),
        QuantizationConfig::nf4(),
        QuantizationConfig {
            bnb_4bit_use_double_quant: true,
            llm_int8_skip_modules: Some(vec!["lm_head".to_owned(), "c_proj".to_owned()]),
            ..QuantizationConfig::fp4()
        },
        QuantizationConfig {
            head: Head::AsLayers,
            llm_int8_skip_modules: Some(vec!["c_proj".to_owned()]),
            ..QuantizationConfig::int8()
        },
        QuantizationConfig { head: Head::Int8, llm_int8_skip_modules: Some(vec![]), ..QuantizationConfig::nf4() },
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
        (json!({ "load_in_8bit": true, "llm_int8_threshold": -1.0 }), "`llm_int8_threshold` is -1"),
        (json!({ "load_in_8bit": 3 }), "`quantization_config`"),
        (json!({ "load_in_8bit": true, "head": "int4" }), "`head` is \"int4\""),
        (json!({ "load_in_4bit": true, "bnb_4bit_quant_storage": "bfloat16" }), "bnb_4bit_quant_storage"),
    ] {
        let error = QuantizationConfig::from_json(&value).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let config = QuantizationConfig { bnb_4bit_blocksize: 48, ..QuantizationConfig::nf4() };
    assert!(config.check().unwrap_err().to_string().contains("48"));
}

#[test]
fn layers_are_skipped_by_their_names() {
    let skip = |names: &[&str]| QuantizationConfig {
        llm_int8_skip_modules: Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..QuantizationConfig::nf4()
    };
    let layer = "transformer.h.1.attn.c_attn";
    let quantizes = |names: &[&str], layer| skip(names).layer(layer).unwrap().is_some();
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
    assert_eq!(with(Head::AsLoaded).layer("lm_head").unwrap(), None);
    assert_eq!(with(Head::Int8).layer("lm_head").unwrap(), Some(LayerFormat::Int8 { threshold: 0.0 }));
    assert!(matches!(with(Head::AsLayers).layer("lm_head").unwrap(), Some(LayerFormat::FourBit { .. })));
}

#[test]
fn static_int8_is_int8_with_a_calibration() {
    let mut calibrator = Calibrator::new(CalibrationMethod::AbsMax, Granularity::PerTensor).unwrap();
    calibrator.observe("h.0", &[1.0_f32, 2.0], 2).unwrap();
    let config = QuantizationConfig::static_int8(calibrator.finish().unwrap());
    assert!(config.check().is_ok());
    assert_eq!(config.to_string(), "static int8");
    assert!(matches!(config.layer("h.0").unwrap(), Some(LayerFormat::StaticInt8(layer)) if layer.channels == 2));
    assert!(config.layer("h.1").unwrap_err().to_string().contains("`h.1`"));
    assert!(config.check_modules(&["h.0".to_owned()]).is_ok());
    assert!(config.check_modules(&["h.1".to_owned()]).unwrap_err().to_string().contains("`calibration`"));
    // bitsandbytes would take the weights for those of int8.
    assert!(config.to_json().unwrap_err().to_string().contains("static int8"));
    for wrong in [
        QuantizationConfig { llm_int8_threshold: 6.0, ..config.clone() },
        QuantizationConfig { load_in_4bit: true, load_in_8bit: false, ..config.clone() },
    ] {
        assert!(wrong.check().unwrap_err().to_string().contains("`calibration`"));
    }
}
