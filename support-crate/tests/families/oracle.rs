//! Families twice: by this library's own decoder, and by candle-transformers.

use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, TokenBatch, load_model};
use serde_json::json;

use crate::cases::{copy, folder, known, on_candle};
use crate::common::distance;

fn load(name: &str, engine: Engine) -> Loaded {
    load_model(&[folder(name).to_str().unwrap()], &LoadOptions { engine: Some(engine), ..LoadOptions::default() })
        .unwrap()
}

#[test]
fn two_implementations_agree_over_the_whole_context() {
    for case in on_candle().into_iter().filter(|case| known().iter().any(|known| known.name == case.name)) {
        let name = &case.name;
        let oracle = load(name, Engine::Candle);
        assert!(!oracle.model.padded_batches(), "{name}: this is not candle-transformers'");
        let ids: Vec<u32> = (0..64).map(|t| (t * t * 7 + 5 * t + 3) % 384).collect();
        let tokens = TokenBatch::new(&[ids.clone(), ids.into_iter().rev().collect()]).unwrap();
        let expected = oracle.model.forward(&tokens, None, LogitPositions::All).unwrap();
        for engine in [Engine::Kernels, Engine::Tch] {
            let own = load(name, engine);
            assert!(own.model.padded_batches());
            let logits = own.model.forward(&tokens, None, LogitPositions::All).unwrap();
            let distance = distance(logits.values(), expected.values());
            assert!(distance < 1e-4, "{name} on {engine}: {distance}");
            let (own, oracle) = (own.model.info(), oracle.model.info());
            assert_eq!(own.num_parameters, oracle.num_parameters);
            assert_eq!(own.bytes_per_token, oracle.bytes_per_token);
            assert_eq!(own.buffer_bytes, oracle.buffer_bytes);
        }
    }
}

/// A window that is longer than any text hides nothing, and takes no memory.
#[test]
fn windows_of_any_length() {
    let tokens = TokenBatch::single(&(1..16).collect::<Vec<u32>>()).unwrap();
    let logits = |loaded: &Loaded| loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec();
    for name in ["gemma2", "gemma3", "mistral"] {
        for window in [64, 1 << 40, u64::MAX] {
            let copy = copy(name);
            copy.change_config(|config| config["sliding_window"] = json!(window));
            let [own, candle] = [Engine::Kernels, Engine::Candle].map(|engine| copy.load_in(engine).unwrap());
            assert!(!candle.model.padded_batches(), "{name}: this is not candle-transformers'");
            let distance = distance(&logits(&own), &logits(&candle));
            assert!(distance < 1e-4, "{name}, window {window}: {distance}");
        }
    }
}

/// As in transformers: the older name of the angles' change counts, if it says anything.
#[test]
fn two_names_of_a_change_of_angles() {
    let logits = |changes: serde_json::Value, engine| {
        let copy = copy("llama");
        copy.change_config(|config| {
            config.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        });
        let loaded = copy.load_in(engine).unwrap();
        let tokens = TokenBatch::single(&(1..16).collect::<Vec<u32>>()).unwrap();
        loaded.model.forward(&tokens, None, LogitPositions::All).unwrap().values().to_vec()
    };
    let linear = json!({"rope_type": null, "type": "linear", "factor": 4.0});
    let default = json!({"rope_type": "default", "rope_theta": 500.0});
    let scaled = [json!({"rope_scaling": linear, "rope_parameters": default}), json!({"rope_scaling": linear})];
    let plain = [json!({"rope_scaling": {}, "rope_parameters": default}), json!({"rope_scaling": null})];
    for same in [scaled, plain] {
        let expected = logits(same[1].clone(), Engine::Kernels);
        for engine in [Engine::Kernels, Engine::Candle] {
            let distance = distance(&logits(same[0].clone(), engine), &expected);
            assert!(distance < 1e-4, "{} on {engine}: {distance}", same[0]);
        }
    }
}

/// What candle-transformers would compute differently, the decoder computes on the same engine.
#[test]
fn a_config_that_it_does_not_compute_goes_to_the_decoder() {
    let changed = |name: &str, key: &str, value: serde_json::Value| {
        let copy = copy(name);
        copy.change_config(|config| config[key] = value);
        copy.load_in(Engine::Candle).unwrap().model
    };
    for (name, key, value) in [
        ("mistral", "sliding_window", json!(8)),
        ("llama", "rope_scaling", json!({"rope_type": "linear", "factor": 2.0})),
        ("llama", "hidden_act", json!("gelu")),
        ("qwen2", "rope_scaling", json!({"rope_type": "linear", "factor": 2.0})),
        ("qwen3", "layer_types", json!(["full_attention", "sliding_attention"])),
        ("gemma2", "query_pre_attn_scalar", json!(16)),
        ("gemma3", "layer_types", json!(["full_attention", "sliding_attention", "sliding_attention"])),
        ("phi3", "sliding_window", json!(20)),
        ("smollm3", "use_sliding_window", json!(true)),
    ] {
        let model = changed(name, key, value);
        assert!(model.padded_batches(), "{name} with {key}");
        assert_eq!(model.info().context_len, 64);
    }
    assert!(!changed("mistral", "sliding_window", json!(64)).padded_batches(), "a window that hides nothing");
}
