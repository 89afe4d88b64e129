//! Files that do not fit are errors that name what does not fit; nothing panics.

use candle_core::{DType, Tensor};
use quantlab::model::Engine;
use serde_json::{Value, json};

use super::cases::copy;
use crate::common::copy::{Copy, expect, filled};

/// The other families are in `tests/files/loading`.
const NEWEST: [&str; 3] = ["granite", "olmo2", "stablelm"];

#[test]
fn sizes_that_no_model_has() {
    let sizes = [
        ("vocab_size", ["the vocabulary is"; 2]),
        ("hidden_size", ["`hidden_size` 0 cannot be divided", "rotary positions turn pairs of a head's numbers, not"]),
        ("intermediate_size", ["the intermediate size is"; 2]),
        ("num_hidden_layers", ["the number of layers is"; 2]),
        ("num_attention_heads", ["`num_attention_heads` 0 heads", "`num_attention_heads` 1152921504606846976 heads"]),
        ("num_key_value_heads", ["the number of key-value heads is"; 2]),
        ("max_position_embeddings", ["the context is"; 2]),
    ];
    for name in NEWEST {
        for (key, [of_nothing, of_too_much]) in sizes {
            expect(&changed(name, key, json!(0)).load(), &["config.json", of_nothing]);
            expect(&changed(name, key, json!(1_u64 << 60)).load(), &["config.json", of_too_much]);
            for value in [json!(-1), json!(1.5), json!("2")] {
                expect(&changed(name, key, value).load(), &["config.json", &format!("`{key}`: invalid")]);
            }
            // transformers has a default for these.
            if key != "num_key_value_heads" {
                let missing = changed(name, key, Value::Null);
                expect(&missing.load(), &["config.json", &format!("missing field `{key}`")]);
            }
        }
    }
}

#[test]
fn numbers_that_make_no_sense() {
    for (name, key, value, said) in [
        ("olmo2", "num_attention_heads", json!(6), "cannot be divided"),
        ("olmo2", "num_key_value_heads", json!(3), "evenly"),
        ("qwen3", "head_dim", json!(7), "turn pairs of a head's numbers, not 7"),
        ("qwen3", "head_dim", json!(0), "pairs of a head's numbers, not 0"),
        ("qwen3", "rope_theta", json!(0.0), "`rope_theta`"),
        ("qwen3", "rope_theta", json!("fast"), "`rope_theta`"),
        ("qwen3", "rms_norm_eps", json!(-1.0), "epsilon"),
        ("qwen3", "hidden_act", json!("tanhshrink"), "tanhshrink"),
        ("qwen3", "layer_types", json!(["full_attention"]), "1 `layer_types` for 2 layers"),
        ("qwen3", "layer_types", json!(["linear_attention", "full_attention"]), "linear_attention"),
        ("gemma2", "sliding_window", json!(0), "sliding window is 0"),
        ("gemma2", "attn_logit_softcapping", json!(0.0), "`attn_logit_softcapping`"),
        ("gemma3", "query_pre_attn_scalar", json!(-1.0), "`query_pre_attn_scalar`"),
        ("gemma3", "sliding_window", json!(0), "sliding window is 0"),
        ("gemma3", "rope_local_base_freq", json!(-1.0), "`rope_theta` is -1"),
        ("granite", "logits_scaling", json!(0.0), "`logits_scaling`"),
        ("granite", "embedding_multiplier", json!("many"), "`embedding_multiplier`"),
        ("phi3", "partial_rotary_factor", json!(0.0), "rotary positions"),
        ("phi3", "partial_rotary_factor", json!(2.0), "16 numbers of a head are to be rotated"),
        ("stablelm", "partial_rotary_factor", json!(0.01), "rotary positions"),
        ("smollm3", "no_rope_layers", json!([1]), "1 `no_rope_layers` for 2 layers"),
    ] {
        expect(&changed(name, key, value).load(), &[said]);
    }
}

/// Sizes that are possible, but not those of the weights.
#[test]
fn weights_of_another_model_are_named() {
    for name in NEWEST {
        for (key, value) in
            [("hidden_size", 64), ("intermediate_size", 50), ("num_hidden_layers", 4), ("vocab_size", 400)]
        {
            expect(&changed(name, key, json!(value)).load(), &["tensor `model."]);
        }
    }
}

#[test]
fn tensors_that_are_missing_misshapen_or_no_numbers_are_named() {
    let norm = "model.layers.1.post_attention_layernorm.weight";
    for name in ["gemma2", "granite", "phi3", "qwen3", "smollm3", "stablelm", "llama", "olmo2-biases"] {
        let damaged = |change: &dyn Fn(&mut crate::common::copy::Tensors)| {
            let copy = copy(name);
            copy.change_tensors(|tensors| change(tensors));
            copy.load_in(Engine::Candle)
        };
        expect(&damaged(&|tensors| drop(tensors.remove(norm))), &["no tensor", norm]);
        let misshapen = damaged(&|tensors| drop(tensors.insert(norm.to_owned(), filled(&[31], 1.0))));
        expect(&misshapen, &[norm, "[31]", "[32]"]);
        let integers: Tensor = filled(&[32], 1.0).to_dtype(DType::U32).unwrap();
        let integers = damaged(&|tensors| drop(tensors.insert(norm.to_owned(), integers.clone())));
        expect(&integers, &[norm, "expected floating-point numbers"]);
    }
    for name in ["qwen3", "granite", "stablelm"] {
        let copy = copy(name);
        copy.change_tensors(|tensors| drop(tensors.remove("lm_head.weight")));
        expect(&copy.load(), &["no tensor `lm_head.weight`"]);
    }
}

fn changed(name: &str, key: &str, value: Value) -> Copy {
    let copy = copy(name);
    copy.change_config(|config| match value {
        Value::Null => drop(config.as_object_mut().unwrap().remove(key)),
        value => config[key] = value,
    });
    copy
}
