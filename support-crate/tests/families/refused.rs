//! What cannot be had is an error that says what can.

use quantlab::error::Error;
use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, Precision, TokenBatch, load_model};
use quantlab::quant::QuantizationConfig;
use serde_json::{Value, json};

use crate::cases::{candle, candle_only, cases, copy};
use crate::common::copy::expect;
use crate::common::tiny;

#[test]
fn a_padded_batch() {
    for case in cases() {
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
        let is_exact = ["granite", "qwen3", "smollm3"].iter().any(|name| case.name.starts_with(name));
        if is_exact {
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
        expect(&copy.load_in(engine), &["`mamba`", "gpt2, llama, mistral, qwen2", "gemma3_text", "qwen3", "stablelm"]);
    }
}

/// A window that candle-transformers would not see shortens the context: up to there it hides nothing.
#[test]
fn texts_beyond_a_window_that_it_does_not_compute() {
    for (name, window, context_len) in [("gemma2", json!(40), 40), ("gemma2", json!(11), 11), ("phi3", json!(20), 20)] {
        let copy = copy(name);
        copy.change_config(|config| config["sliding_window"] = window);
        let model = copy.load().unwrap().model;
        assert_eq!(model.info().context_len, context_len, "{name}");
        let error = model.new_cache(1, context_len + 1).unwrap_err().to_string();
        assert!(error.contains("longer than the model's context"), "{error}");
        let options = GenerateOptions { max_new_tokens: 2, ..GenerateOptions::default() };
        assert!(generate_tokens(&*model, &[vec![7; context_len]], &options, &mut |_, _| ()).is_err());
    }
    let everywhere = copy("gemma2");
    everywhere.change_config(|config| {
        config["sliding_window"] = json!(11);
        config["layer_types"] = json!(["full_attention", "full_attention"]);
    });
    assert_eq!(everywhere.load().unwrap().model.info().context_len, 64);
}

/// Settings that transformers computes with, and candle-transformers does not.
#[test]
fn settings_that_would_be_passed_over() {
    let settings: [(&str, &str, Value); 25] = [
        ("gemma2", "query_pre_attn_scalar", json!(16)),
        ("gemma2", "tie_word_embeddings", json!(false)),
        ("gemma2", "rope_scaling", json!({"rope_type": "linear", "factor": 8.0})),
        ("gemma3", "query_pre_attn_scalar", json!(16)),
        ("gemma3", "attn_logit_softcapping", json!(5.0)),
        ("gemma3", "rope_scaling", json!({"rope_type": "linear", "factor": 8.0})),
        ("gemma3", "rope_parameters", json!({"full_attention": {"rope_type": "linear", "rope_theta": 5000.0}})),
        ("gemma3", "use_bidirectional_attention", json!(true)),
        ("gemma3", "layer_types", json!(["full_attention", "sliding_attention", "sliding_attention"])),
        ("granite", "attention_bias", json!(true)),
        ("granite", "mlp_bias", json!(true)),
        ("granite", "hidden_act", json!("gelu")),
        ("granite", "rope_scaling", json!({"type": "dynamic", "factor": 2.0})),
        ("olmo2", "clip_qkv", json!(8.0)),
        ("olmo2", "head_dim", json!(16)),
        ("phi3", "rope_scaling", json!({"type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [2.0, 2.0]})),
        ("phi3", "head_dim", json!(16)),
        ("qwen3", "use_sliding_window", json!(true)),
        ("qwen3", "layer_types", json!(["full_attention", "sliding_attention"])),
        ("qwen3", "rope_scaling", json!({"rope_type": "yarn", "factor": 4.0})),
        ("qwen3", "partial_rotary_factor", json!(0.5)),
        ("smollm3", "use_sliding_window", json!(true)),
        ("smollm3", "rope_scaling", json!({"rope_type": "yarn", "factor": 4.0})),
        ("stablelm", "use_parallel_residual", json!(true)),
        ("stablelm", "qk_layernorm", json!(true)),
    ];
    for (name, key, value) in settings {
        let copy = copy(name);
        copy.change_config(|config| config[key] = value);
        let key = if key == "rope_parameters" { "rope_scaling" } else { key };
        expect(
            &copy.load(),
            &["config.json", &format!("`{key}`"), "candle-transformers computes this family only with"],
        );
    }
}
