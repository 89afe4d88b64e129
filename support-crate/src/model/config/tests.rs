use proptest::prelude::*;
use serde_json::json;

use super::*;

fn gpt2() -> Value {
    json!({ "model_type": "gpt2", "vocab_size": 10, "n_positions": 8, "n_embd": 4, "n_layer": 1, "n_head": 2 })
}

fn llama() -> Value {
    json!({
        "model_type": "llama", "vocab_size": 10, "max_position_embeddings": 8, "hidden_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "intermediate_size": 12,
    })
}

fn parsed(mut config: Value, changes: Value) -> Result<DecoderConfig> {
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    DecoderConfig::parse(config.to_string().as_bytes())
}

#[test]
fn defaults_are_those_of_transformers() {
    let config = parsed(gpt2(), json!({})).unwrap();
    assert_eq!((config.intermediate_size, config.activation, config.norm_epsilon), (16, Activation::GeluNew, 1e-5));
    assert!(config.tie_word_embeddings && !config.scale_attn_by_inverse_layer_idx);
    assert_eq!((config.attention_scale(0), config.head_dim), (1.0 / 2.0_f32.sqrt(), 2));
    assert_eq!(parsed(gpt2(), json!({ "scale_attn_weights": false })).unwrap().attention_scale(0), 1.0);
    assert!(parsed(gpt2(), json!({ "n_ctx": 8 })).is_ok());

    let config = parsed(llama(), json!({})).unwrap();
    assert_eq!((config.head_dim, config.n_kv_head, config.norm_epsilon), (4, 1, 1e-6));
    assert!(!config.tie_word_embeddings && config.gated);
    assert_eq!(config.layers, [LayerAttention { window: None, rotation: Some(0) }]);
    assert_eq!(config.positions, rotary(&[1.0, 0.01]));
}

/// Files of Gemma have `hidden_activation` so.
#[test]
fn null_is_what_is_not_said() {
    let of = |model_type: &str, changes: Value| {
        let mut config = llama();
        config["model_type"] = json!(model_type);
        config["hidden_size"] = json!(16);
        parsed(config, changes).unwrap()
    };
    for (model_type, keys) in [
        ("gemma2", &["hidden_activation", "head_dim", "query_pre_attn_scalar", "tie_word_embeddings"][..]),
        ("gemma3_text", &["hidden_activation", "rope_theta", "rope_local_base_freq"]),
        ("phi3", &["rms_norm_eps", "partial_rotary_factor"]),
        ("qwen3", &["head_dim", "rope_theta"]),
        ("smollm3", &["rope_theta", "tie_word_embeddings", "no_rope_layer_interval"]),
        ("stablelm", &["partial_rotary_factor", "layer_norm_eps"]),
    ] {
        for key in keys {
            assert_eq!(of(model_type, json!({ *key: null })), of(model_type, json!({})), "{model_type} {key}");
        }
    }
    let gelu = of("gemma2", json!({ "hidden_activation": null, "hidden_act": "gelu" }));
    assert_eq!(gelu.activation, Activation::GeluNew);
    // There is none, or it is what another key says.
    let none = of("gemma2", json!({ "sliding_window": null, "final_logit_softcapping": null }));
    assert_eq!((none.layers[0].window, none.soft_caps.logits), (None, None));
    assert_eq!(of("qwen2", json!({ "num_key_value_heads": null })).n_kv_head, 2);
}

/// transformers cuts the width off, as Python's `int` does.
#[test]
fn a_part_of_a_head_is_rotated_in_whole_numbers() {
    let rotated = |head_dim: usize, factor: f64| {
        let mut config = llama();
        config["model_type"] = json!("phi3");
        let changes = json!({ "head_dim": head_dim, "partial_rotary_factor": factor });
        match parsed(config, changes).unwrap().positions {
            Positions::Rotary { rotations } => 2 * rotations[0].frequencies.len(),
            Positions::Learned => panic!("Phi-3 turns"),
        }
    };
    assert_eq!((rotated(128, 0.75), rotated(8, 0.6), rotated(64, 0.39)), (96, 4, 24));
    // What a GGUF file says is divided and multiplied again.
    assert_eq!((2..=128_usize).step_by(2).find(|&width| rotated(128, width as f64 / 128.0) != width), None);
    assert_eq!((2..=96_usize).step_by(2).find(|&width| rotated(96, width as f64 / 96.0) != width), None);
}

#[test]
fn one_token_ends_a_text_or_several_do() {
    for (value, expected) in [
        (json!(null), &[][..]),
        (json!(3), &[3]),
        (json!([3, 4, 9]), &[3, 4, 9]),
        // A value that is not a token id is never chosen.
        (json!(-1), &[]),
        (json!([3, "4", 1_u64 << 32]), &[3]),
    ] {
        for model in [gpt2(), llama()] {
            assert_eq!(parsed(model, json!({ "eos_token_id": value })).unwrap().eos_token_ids, expected, "{value}");
        }
    }
    assert!(parsed(gpt2(), json!({})).unwrap().eos_token_ids.is_empty());
}

#[test]
fn the_llama_family_differs_in_biases_and_windows() {
    let of = |model_type: &str, changes: Value| {
        let mut config = llama();
        config["model_type"] = json!(model_type);
        config["sliding_window"] = json!(4);
        parsed(config, changes).unwrap()
    };
    let windows = |model_type: &str, changes: Value| -> Vec<Option<usize>> {
        of(model_type, changes).layers.iter().map(|layer| layer.window).collect()
    };
    assert_eq!(windows("llama", json!({})), [None]);
    assert_eq!(windows("mistral", json!({})), [Some(4)]);
    assert_eq!(windows("qwen2", json!({})), [None]);
    // The first 28 layers see all unless the file says otherwise.
    assert_eq!(windows("qwen2", json!({ "use_sliding_window": true })), [None]);
    let some = json!({ "use_sliding_window": true, "max_window_layers": 1, "num_hidden_layers": 3 });
    assert_eq!(windows("qwen2", some), [None, Some(4), Some(4)]);
    let named = json!({ "use_sliding_window": true, "layer_types": ["sliding_attention"] });
    assert_eq!(windows("qwen3", named), [Some(4)]);
    assert_eq!(windows("mistral", json!({ "sliding_window": null })), [None]);
    assert_eq!(windows("gemma2", json!({ "num_hidden_layers": 3 })), [Some(4), None, Some(4)]);
    let every_third = json!({ "num_hidden_layers": 4, "sliding_window_pattern": 3, "_sliding_window_pattern": 2 });
    assert_eq!(windows("gemma3_text", every_third), [Some(4), Some(4), None, Some(4)]);
    let mistral = parsed(llama(), json!({ "model_type": "mistral" })).unwrap();
    assert_eq!(mistral.layers[0].window, Some(4096));
    let rotated = of("smollm3", json!({ "num_hidden_layers": 4 })).layers;
    assert_eq!(rotated.iter().map(|layer| layer.rotation).collect::<Vec<_>>(), [Some(0), Some(0), Some(0), None]);
    assert!(of("qwen2", json!({})).biases.attention_in && !of("qwen2", json!({})).biases.attention_out);
    assert!(!of("mistral", json!({})).biases.attention_in);
    let asked = |model_type| of(model_type, json!({ "attention_bias": true, "mlp_bias": true })).biases;
    let [llama, qwen2, phi3] = ["llama", "qwen2", "phi3"].map(asked);
    assert_eq!(llama, Biases { attention_in: true, attention_out: true, mlp: true });
    assert_eq!(qwen2, Biases { attention_in: true, attention_out: false, mlp: false });
    assert_eq!(phi3, Biases { attention_in: false, attention_out: false, mlp: false });
    let named = json!({ "use_sliding_window": false, "layer_types": ["sliding_attention"] });
    assert_eq!((windows("smollm3", named.clone()), windows("qwen3", named)), (vec![Some(4)], vec![None]));
}

#[test]
fn rotary_frequencies_can_be_scaled() {
    let of = |scaling: Value| match parsed(llama(), json!({ "rope_scaling": scaling })).unwrap().positions {
        Positions::Rotary { mut rotations } => rotations.remove(0).frequencies,
        Positions::Learned => panic!("Llama turns"),
    };
    assert_eq!(of(json!({ "type": "linear", "factor": 4.0 })), [0.25, 0.0025]);
    assert_eq!(of(json!({ "rope_type": "default", "rope_theta": 100.0 })), [1.0, 0.1]);
    // 64 tokens are ten turns of the first pair (left alone) and a tenth of one of the second.
    assert_eq!(of(llama3(1.0, 4.0)), [1.0, 0.01 / 8.0]);
}

#[test]
fn rotary_scaling_has_two_names_and_so_has_its_type() {
    let of = |changes: Value| parsed(llama(), changes).unwrap().positions;
    let linear = rotary(&[0.25, 0.0025]);
    let (new, old) = (json!({ "rope_type": "linear", "factor": 4.0 }), json!({ "type": "linear", "factor": 4.0 }));
    let both = json!({ "rope_type": "linear", "type": "default", "factor": 4.0 });
    let neither = json!({ "rope_type": null, "type": "linear", "factor": 4.0 });
    for scaling in [&new, &old, &both, &neither] {
        assert_eq!(of(json!({ "rope_scaling": scaling })), linear, "{scaling}");
        assert_eq!(of(json!({ "rope_parameters": scaling })), linear, "{scaling}");
        assert_eq!(of(json!({ "rope_scaling": null, "rope_parameters": scaling })), linear, "{scaling}");
        assert_eq!(of(json!({ "rope_scaling": scaling, "rope_parameters": null })), linear, "{scaling}");
    }
    let other = json!({ "rope_type": "default" });
    assert_eq!(of(json!({ "rope_scaling": new, "rope_parameters": other })), linear, "as in transformers");
}

#[test]
fn longer_texts_multiply_what_is_turned() {
    let of = |changes: Value| {
        let base = json!({
            "model_type": "phi3", "max_position_embeddings": 4096, "original_max_position_embeddings": 256,
            "rope_scaling": { "type": "longrope", "short_factor": [1.0, 2.0], "long_factor": [9.0, 9.0] },
        });
        let mut config = llama();
        config.as_object_mut().unwrap().extend(base.as_object().unwrap().clone());
        config["rope_scaling"].as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        let config = parsed(config, json!({})).unwrap();
        let Positions::Rotary { mut rotations } = config.positions else { panic!("Phi-3 turns") };
        (config.context_len, rotations.remove(0))
    };
    // 16 times as long; ln(16) / ln(256) is a half.
    let rotation = |factor| Rotation { frequencies: vec![1.0, 0.005], factor };
    assert_eq!(of(json!({})), (256, rotation(1.5_f32.sqrt())));
    assert_eq!(of(json!({ "factor": 256.0 })), (256, rotation(2.0_f32.sqrt())));
    assert_eq!(of(json!({ "attention_factor": 1.25 })), (256, rotation(1.25)));
    assert_eq!(of(json!({ "original_max_position_embeddings": 512 })).0, 256, "the one beside the sizes counts");
}

fn rotary(frequencies: &[f32]) -> Positions {
    Positions::Rotary { rotations: vec![Rotation { frequencies: frequencies.to_vec(), factor: 1.0 }] }
}

fn llama3(low_freq_factor: f32, high_freq_factor: f32) -> Value {
    json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": low_freq_factor,
        "high_freq_factor": high_freq_factor, "original_max_position_embeddings": 64,
    })
}

#[test]
fn what_is_wrong_is_named() {
    let wrong = [
        (gpt2(), json!({ "n_embd": 5 }), "cannot be divided"),
        (gpt2(), json!({ "n_head": 0 }), "cannot be divided"),
        (gpt2(), json!({ "n_layer": 0 }), "number of layers is 0"),
        (gpt2(), json!({ "vocab_size": -1 }), "`vocab_size`: invalid value: integer `-1`"),
        (gpt2(), json!({ "n_layer": null }), "`n_layer`: invalid type: null"),
        (llama(), json!({ "rope_scaling": { "factor": "8" } }), "`rope_scaling`: invalid type: string"),
        (gpt2(), json!({ "layer_norm_epsilon": -1.0 }), "epsilon"),
        (gpt2(), json!({ "model_type": "bert" }), "type `bert`"),
        (gpt2(), json!({ "model_type": "llama" }), "missing field `hidden_size`"),
        (gpt2(), json!({ "activation_function": "mish" }), "\"mish\""),
        (gpt2(), json!({ "quantization_config": { "quant_method": "gptq" } }), "\"gptq\""),
        (llama(), json!({ "num_key_value_heads": 3 }), "key-value heads is 3"),
        (llama(), json!({ "num_attention_heads": 4, "num_key_value_heads": 3 }), "evenly"),
        (llama(), json!({ "head_dim": 3 }), "turn pairs of a head's numbers, not 3"),
        (llama(), json!({ "rope_scaling": { "rope_type": "yarn" } }), "\"yarn\""),
        (llama(), json!({ "rope_scaling": { "rope_type": "linear" } }), "`factor`"),
        (llama(), json!({ "rope_scaling": { "rope_type": "linear", "factor": 1e-45 } }), "infinitely fast"),
        (llama(), json!({ "rope_scaling": llama3(4.0, 4.0) }), "`high_freq_factor` is 4; it must be above"),
        (llama(), json!({ "max_position_embeddings": 1_u64 << 40 }), "the context is 1099511627776"),
        (llama(), json!({ "model_type": "mistral", "sliding_window": 0 }), "sliding window is 0"),
        (llama(), json!({ "is_causal": false }), "`is_causal` is false: each of its tokens sees those after it"),
        (gpt2(), json!({ "is_causal": false }), "`is_causal` is false: each of its tokens sees those after it"),
    ];
    for (config, changes, expected) in wrong {
        let error = parsed(config, changes).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    for (config, keys) in [
        (gpt2(), &["vocab_size", "n_positions", "n_embd", "n_layer", "n_head"][..]),
        (llama(), &["vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"]),
    ] {
        for key in keys {
            let mut lacking = config.clone();
            lacking.as_object_mut().unwrap().remove(*key);
            let error = DecoderConfig::parse(lacking.to_string().as_bytes()).unwrap_err();
            assert!(error.to_string().contains(&format!("missing field `{key}`")), "{error}");
        }
    }
    assert!(DecoderConfig::parse(b"[1]").is_err());
}

proptest! {
    #[test]
    fn any_json_is_a_config_or_an_error(key in 0..14_usize, value in any_value(), of_llama: bool) {
        let keys = [
            "model_type", "vocab_size", "n_positions", "n_embd", "n_layer", "n_head", "n_inner", "eos_token_id",
            "hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rope_scaling", "rms_norm_eps",
        ];
        let base = if of_llama { llama() } else { gpt2() };
        if let Ok(config) = parsed(base, json!({ keys[key]: value })) {
            prop_assert!(config.head_dim >= 1 && config.n_head.is_multiple_of(config.n_kv_head));
        }
    }

    #[test]
    fn any_bytes_are_a_config_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(DecoderConfig::parse(&bytes).is_err());
    }
}

/// Numbers of every magnitude and sign, strings, lists, objects and null.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(|number| json!(number)),
        any::<i64>().prop_map(|number| json!(number)),
        (0..40_u32).prop_map(|shift| json!(1_u64 << shift)),
        any::<f64>().prop_map(|number| json!(number)),
        ".{0,8}".prop_map(|text| json!(text)),
        Just(json!({ "rope_type": "llama3", "factor": 1e38, "low_freq_factor": 1e-38 })),
        Just(json!([1, [2], { "a": null }])),
        Just(Value::Null),
    ]
}
