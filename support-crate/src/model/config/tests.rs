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
    assert!(config.scale_attn_weights && config.tie_word_embeddings && !config.scale_attn_by_inverse_layer_idx);
    assert!(parsed(gpt2(), json!({ "n_ctx": 8 })).is_ok());

    let config = parsed(llama(), json!({})).unwrap();
    assert_eq!((config.head_dim, config.n_kv_head, config.norm_epsilon), (4, 1, 1e-6));
    assert!(!config.tie_word_embeddings && config.gated && config.sliding_window.is_none());
    assert_eq!(config.positions, Positions::Rotary { frequencies: vec![1.0, 0.01] });
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
    assert_eq!(of("llama", json!({})).sliding_window, None);
    assert_eq!(of("mistral", json!({})).sliding_window, Some(4));
    assert_eq!(of("qwen2", json!({})).sliding_window, None);
    // The first 28 layers see all unless the file says otherwise.
    assert_eq!(of("qwen2", json!({ "use_sliding_window": true })).sliding_window, None);
    let all = json!({ "use_sliding_window": true, "max_window_layers": 0 });
    assert_eq!(of("qwen2", all).sliding_window, Some(4));
    let named = json!({ "use_sliding_window": true, "layer_types": ["sliding_attention"] });
    assert_eq!(of("qwen2", named).sliding_window, Some(4));
    assert_eq!(of("mistral", json!({ "sliding_window": null })).sliding_window, None);
    assert_eq!(parsed(llama(), json!({ "model_type": "mistral" })).unwrap().sliding_window, Some(4096));
    assert!(of("qwen2", json!({})).biases.attention_in && !of("qwen2", json!({})).biases.attention_out);
    assert!(!of("mistral", json!({})).biases.attention_in);
}

#[test]
fn rotary_frequencies_can_be_scaled() {
    let of = |scaling: Value| match parsed(llama(), json!({ "rope_scaling": scaling })).unwrap().positions {
        Positions::Rotary { frequencies } => frequencies,
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
    let linear = Positions::Rotary { frequencies: vec![0.25, 0.0025] };
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
        (llama(), json!({ "head_dim": 3 }), "even width"),
        (llama(), json!({ "rope_scaling": { "rope_type": "yarn" } }), "\"yarn\""),
        (llama(), json!({ "rope_scaling": { "rope_type": "linear" } }), "`factor`"),
        (llama(), json!({ "rope_scaling": { "rope_type": "linear", "factor": 1e-45 } }), "infinitely fast"),
        (llama(), json!({ "rope_scaling": llama3(4.0, 4.0) }), "`high_freq_factor` is 4; it must be above"),
        (llama(), json!({ "max_position_embeddings": 1_u64 << 40 }), "the context is 1099511627776"),
        (llama(), json!({ "model_type": "mistral", "sliding_window": 0 }), "sliding window is 0"),
        (
            llama(),
            json!({
                "model_type": "qwen2", "use_sliding_window": true, "sliding_window": 4, "num_hidden_layers": 3,
                "max_window_layers": 1,
            }),
            "2 of 3 layers have a sliding window of 4",
        ),
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
