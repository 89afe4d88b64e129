//! `config.json`.

use std::fs;
use std::path::Path;

use quantlab::model::Engine;
use serde_json::json;

use super::family::{FAMILIES, GPT2, LLAMA};
use crate::common::copy::{CONFIG, Copy, TOKENIZER, WEIGHTS, expect, logits};
use crate::common::{distance, tiny};

#[test]
fn a_config_that_is_not_one() {
    for text in ["", "{ \"vocab_size\": 3", "[]", "\"gpt2\"", "\u{feff}{}", &"[".repeat(100_000)] {
        let copy = GPT2.copy();
        fs::write(copy.path(CONFIG), text).unwrap();
        expect(&copy.load(), &["config.json", "not a JSON object"]);
    }
}

#[test]
fn a_config_without_a_needed_key() {
    for family in FAMILIES {
        for key in family.needed_keys {
            let copy = family.copy();
            copy.change_config(|config| drop(config.as_object_mut().unwrap().remove(*key)));
            expect(&copy.load(), &["config.json", &format!("missing field `{key}`")]);
        }
    }
}

#[test]
fn a_checkpoint_that_is_not_quantized_as_its_config_says() {
    let copy = GPT2.copy();
    copy.change_config(|config| config["quantization_config"] = json!({ "load_in_4bit": true }));
    expect(&copy.load(), &["layer `transformer.h.0.attn.c_attn`", "quant_state.bitsandbytes__fp4"]);
    copy.change_config(|config| config["quantization_config"] = json!({ "load_in_8bit": true }));
    expect(&copy.load(), &["layer `transformer.h.0.attn.c_attn`"]);
}

/// Lists that other models have too, which transformers takes.
#[test]
fn a_saved_list_of_modules_to_skip_may_name_others() {
    let folder = Path::new("tests/golden/gpt2-tiny-bnb-nf4");
    let copy = Copy::of_files(&[folder.join(CONFIG), folder.join(WEIGHTS), tiny().join(TOKENIZER)]);
    let expected = logits(&copy.load().unwrap());
    let skipped = json!(["lm_head", "vision_tower", "multi_modal_projector"]);
    copy.change_config(|config| config["quantization_config"]["llm_int8_skip_modules"] = skipped);
    assert_eq!(logits(&copy.load().unwrap()), expected);
}

#[test]
fn a_model_of_another_family() {
    for (model, other) in [(GPT2, "llama"), (LLAMA, "gpt2")] {
        let copy = model.copy();
        copy.change_config(|config| config["model_type"] = json!(other));
        expect(&copy.load(), &["config.json", other, "missing field"]);
    }
}

/// 64 TiB for the token embedding alone.
#[test]
fn no_memory_is_set_aside_for_sizes_that_the_file_does_not_have() {
    for family in FAMILIES {
        for engine in Engine::ALL {
            let copy = family.copy();
            copy.change_config(|config| {
                config["vocab_size"] = json!(1 << 24);
                config[family.hidden_size] = json!(1 << 20);
                config[family.n_head] = json!(64);
            });
            let expected = format!("`{}` has shape [384, 64], expected [16777216, 1048576]", family.token_embedding);
            expect(&copy.load_in(engine), &[&expected, "belong to the same model"]);
            let copy = family.copy();
            copy.change_config(|config| config[family.intermediate_size] = json!(1 << 22));
            expect(&copy.load_in(engine), &[family.mlp_in.0, "4194304"]);
            copy.change_config(|config| config[family.hidden_size] = json!(1_u64 << 40));
            expect(&copy.load_in(engine), &["the hidden size is 1099511627776", "between 1 and"]);
        }
    }
    let copy = LLAMA.copy();
    copy.change_config(|config| {
        config["num_attention_heads"] = json!(1 << 16);
        config["num_key_value_heads"] = json!(1 << 16);
        config["head_dim"] = json!(1 << 16);
    });
    expect(&copy.load(), &["q_proj.weight` has shape [64, 64], expected [4294967296, 64]"]);
}

#[test]
fn more_layers_than_the_file_has() {
    for family in FAMILIES {
        let copy = family.copy();
        let layers = copy.load().unwrap().model.info().n_layer;
        for wanted in [layers + 1, 4096] {
            copy.change_config(|config| config[family.n_layer] = json!(wanted));
            expect(&copy.load(), &[&format!("has no tensor `{}`", (family.first_of_block)(layers))]);
        }
    }
}

#[test]
fn fewer_layers_than_the_file_has() {
    for family in FAMILIES {
        let copy = family.copy();
        copy.change_config(|config| config[family.n_layer] = json!(1));
        let loaded = copy.load().unwrap();
        assert!(loaded.unused_tensors.contains(&family.norm.to_owned()), "{:?}", loaded.unused_tensors);
        assert!(loaded.summary().contains(" more"), "{}", loaded.summary());
    }
}

/// Rotary positions have no table, so a context costs nothing until it is used.
#[test]
fn a_context_that_no_memory_holds() {
    let longest = 1 << 24;
    let copy = LLAMA.copy();
    copy.change_config(|config| config["max_position_embeddings"] = json!(longest));
    for engine in Engine::ALL {
        let loaded = copy.load_in(engine).unwrap();
        assert_eq!(loaded.model.info().context_len, longest);
        assert_eq!(logits(&loaded), logits(&LLAMA.copy().load_in(engine).unwrap()));
        // The first fits the arithmetic, but no machine.
        for batch in [1 << 14, usize::MAX / 2] {
            let error = loaded.model.new_cache(batch, longest).unwrap_err().to_string();
            let expected = format!("a cache of {batch} sequences of 16777216 tokens needs ");
            assert!(error.contains(&expected) && error.contains(" GiB are free; hint: "), "{error}");
        }
    }
    copy.change_config(|config| config["max_position_embeddings"] = json!(longest + 1));
    expect(&copy.load(), &["the context is 16777217"]);
    // Learned positions have one.
    let copy = GPT2.copy();
    copy.change_config(|config| config["n_positions"] = json!(longest));
    expect(&copy.load(), &["`transformer.wpe.weight` has shape [64, 64], expected [16777216, 64]"]);
}

#[test]
fn scores_scaled_by_layer_change_the_result() {
    let plain = logits(&crate::common::load(tiny(), "float32"));
    for key in ["scale_attn_by_inverse_layer_idx", "scale_attn_weights"] {
        let copy = GPT2.copy();
        copy.change_config(|config| config[key] = json!(key == "scale_attn_by_inverse_layer_idx"));
        assert!(distance(&plain, &logits(&copy.load().unwrap())) > 1e-3, "{key}");
    }
}

#[test]
fn every_activation_computes_something_of_its_own() {
    let all = ["gelu_new", "gelu", "relu", "silu"].map(|name| {
        let copy = GPT2.copy();
        copy.change_config(|config| config["activation_function"] = json!(name));
        logits(&copy.load().unwrap())
    });
    assert!(distance(&all[0], &all[1]) < 0.1, "the approximation of GELU is close to GELU");
    for (i, j) in [(0, 1), (0, 2), (0, 3), (2, 3)] {
        assert!(distance(&all[i], &all[j]) > 0.0, "{i} {j}");
    }
}
