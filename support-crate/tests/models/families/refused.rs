//! What cannot be had is an error that says what can.

use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::model::Engine;
use serde_json::json;

use super::cases::copy;
use crate::common::copy::expect;
use crate::common::tiny;

#[test]
fn an_unknown_family_lists_what_is_known() {
    let copy = crate::common::copy::Copy::of(tiny());
    copy.change_config(|config| config["model_type"] = json!("mamba"));
    for engine in Engine::ALL {
        expect(
            &copy.load_in(engine),
            &[
                "`mamba`",
                "gpt2, llama, mistral, qwen2, qwen3, smollm3, phi3, gemma2, gemma3_text, granite, olmo2, stablelm",
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

/// Settings that no model of these families has been compared with transformers for.
#[test]
fn settings_that_are_not_compared() {
    let longrope = || json!({"type": "longrope", "short_factor": [1.0, 1.0, 1.0, 1.0]});
    for (name, key, value) in [
        ("granite", "partial_rotary_factor", json!(0.5)),
        ("granite", "rope_scaling", longrope()),
        ("granite", "layer_types", json!(["sliding_attention", "full_attention"])),
        ("olmo2", "clip_qkv", json!(8.0)),
        ("olmo2", "partial_rotary_factor", json!(0.5)),
        ("olmo2", "rope_scaling", longrope()),
        ("stablelm", "head_dim", json!(16)),
        ("stablelm", "rope_scaling", longrope()),
        ("stablelm", "layer_types", json!(["full_attention", "sliding_attention"])),
    ] {
        let copy = copy(name);
        copy.change_config(|config| config[key] = value);
        let said = format!("models of type {name} are computed only with");
        expect(&copy.load(), &["config.json", &format!("`{key}`"), &said]);
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
        ("granite", "rope_scaling", json!({"type": "dynamic", "factor": 2.0}), "unknown `rope_type` \"dynamic\""),
        ("stablelm", "layer_types", json!(["full_attention"]), "1 `layer_types` for 2 layers"),
    ] {
        let copy = copy(name);
        copy.change_config(|config| config[key] = value);
        for engine in Engine::ALL {
            expect(&copy.load_in(engine), &["config.json", said]);
        }
    }
}
