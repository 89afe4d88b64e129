//! What cannot be had is an error that says what can.

use quantlab::error::Error;
use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, Precision, TokenBatch, load_model};
use quantlab::quant::QuantizationConfig;
use serde_json::{Value, json};

use crate::cases::{candle, candle_only, copy, on_candle};
use crate::common::copy::expect;
use crate::common::tiny;

#[test]
fn a_padded_batch() {
    for case in on_candle() {
        let loaded = candle(&case);
        assert!(!loaded.model.padded_batches());
        let mut mask = vec![vec![true; 15]; 2];
        mask[1][0] = false;
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap().with_attention_mask(&mask).unwrap();
        let error = loaded.model.forward(&tokens, None, LogitPositions::Last).unwrap_err().to_string();
        assert!(error.contains("does not support padding") && error.contains("one by one"), "{error}");
    }
}

#[test]
fn another_engine_another_format_and_a_quantized_one() {
    let load = |case: &crate::common::Case, options: LoadOptions| -> Result<Loaded, Error> {
        load_model(&[case.folder.to_str().unwrap()], &options)
    };
    for case in candle_only() {
        for engine in [Engine::Kernels, Engine::Tch] {
            let refused = load(&case, LoadOptions { engine: Some(engine), ..LoadOptions::default() });
            expect(&refused, &[&format!("cannot be computed with {engine}"), "candle-transformers"]);
        }
        let quantization = Some(QuantizationConfig::nf4());
        expect(&load(&case, LoadOptions { quantization, ..LoadOptions::default() }), &["cannot be quantized"]);
        let half = load(&case, LoadOptions { precision: Precision::BFloat16, ..LoadOptions::default() });
        if case.name.starts_with("granite") {
            drop(half.unwrap());
        } else {
            expect(&half, &["in bfloat16", "positions would be rounded", "use float32"]);
        }
    }
}

#[test]
fn an_unknown_family_lists_what_is_known() {
    let copy = crate::common::copy::Copy::of(tiny());
    copy.change_config(|config| config["model_type"] = json!("mamba"));
    for engine in Engine::ALL {
        expect(
            &copy.load_in(engine),
            &[
                "`mamba`",
                "gpt2, llama, mistral, qwen2, qwen3, smollm3, phi3, gemma2, gemma3_text,",
                "granite, olmo2, stablelm",
            ],
        );
    }
}

/// Factors for texts as long as those of the training are not those for longer ones.
#[test]
fn texts_beyond_the_length_that_angles_are_for() {
    let copy = copy("phi3-longrope");
    for engine in Engine::ALL {
        let model = copy.load_in(engine).unwrap().model;
        assert_eq!(model.info().context_len, 48);
        let error = model.new_cache(1, 49).unwrap_err().to_string();
        assert!(error.contains("longer than the model's context"), "{error}");
        let options = GenerateOptions { max_new_tokens: 2, ..GenerateOptions::default() };
        assert!(generate_tokens(&*model, &[vec![7; 48]], &options, &mut |_, _| ()).is_err());
    }
}

/// Settings that transformers computes with, and candle-transformers does not.
#[test]
fn settings_that_would_be_passed_over() {
    let settings: [(&str, &str, Value); 8] = [
        ("granite", "attention_bias", json!(true)),
        ("granite", "mlp_bias", json!(true)),
        ("granite", "hidden_act", json!("gelu")),
        ("granite", "rope_scaling", json!({"type": "dynamic", "factor": 2.0})),
        ("olmo2", "clip_qkv", json!(8.0)),
        ("olmo2", "head_dim", json!(16)),
        ("stablelm", "use_parallel_residual", json!(true)),
        ("stablelm", "qk_layernorm", json!(true)),
    ];
    for (name, key, value) in settings {
        let copy = copy(name);
        copy.change_config(|config| config[key] = value);
        expect(
            &copy.load(),
            &["config.json", &format!("`{key}`"), "candle-transformers computes this family only with"],
        );
    }
}

/// Settings that nothing here computes.
#[test]
fn settings_of_other_models() {
    let yarn = || json!({"rope_type": "yarn", "factor": 4.0});
    for (name, key, value, said) in [
        ("gemma3", "use_bidirectional_attention", json!(true), "`use_bidirectional_attention`"),
        ("gemma3", "layer_types", json!(["full_attention", "linear_attention", "full_attention"]), "linear_attention"),
        ("phi3", "rope_scaling", json!({"type": "longrope", "short_factor": [1.0]}), "`short_factor` for 2"),
        ("phi3", "rope_scaling", json!({"type": "longrope", "short_factor": [1.0, 0.0]}), "positive `short_factor`"),
        ("qwen3", "rope_scaling", yarn(), "unknown `rope_type` \"yarn\""),
        ("smollm3", "rope_scaling", yarn(), "unknown `rope_type` \"yarn\""),
    ] {
        let copy = copy(name);
        copy.change_config(|config| config[key] = value);
        for engine in Engine::ALL {
            expect(&copy.load_in(engine), &["config.json", said]);
        }
    }
}
