//! What transformers takes for keys that a `config.json` may leave out.

use serde_json::{Map, Value, json};

use super::Architecture;

/// Those of which null says something: that there is none, or that it is what another key says.
const NULL_IS_SAID: [&str; 5] = [
    "num_key_value_heads",
    "sliding_window",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "original_max_position_embeddings",
];

/// Adds the keys that are not there, or are null, with the values of transformers' configuration of this family.
///
/// The longest text is not among them: a model whose config does not say it is not loaded. Neither are the tokens that end
/// a text, which are those of one vocabulary: a config that names none has none.
///
/// Source: `models/*/configuration_*.py` in transformers.
pub(super) fn add_defaults(architecture: Architecture, keys: &mut Map<String, Value>) {
    if let Value::Object(defaults) = of(architecture) {
        for (key, value) in defaults {
            let is_said = |said: &Value| !said.is_null() || NULL_IS_SAID.contains(&key.as_str());
            if !keys.get(&key).is_some_and(is_said) {
                keys.insert(key, value);
            }
        }
    }
}

fn of(architecture: Architecture) -> Value {
    match architecture {
        Architecture::Gemma2 => json!({
            "attention_bias": false, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
            "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "rope_theta": 10_000.0, "query_pre_attn_scalar": 256,
            "sliding_window": 4096, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
            "tie_word_embeddings": true,
        }),
        Architecture::Gemma3Text => json!({
            "attention_bias": false, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
            "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "rope_theta": 1_000_000.0,
            "rope_local_base_freq": 10_000.0, "query_pre_attn_scalar": 256, "sliding_window": 4096,
            "tie_word_embeddings": true,
        }),
        Architecture::Granite => json!({
            "rms_norm_eps": 1e-6, "rope_theta": 10_000.0, "embedding_multiplier": 1.0, "attention_multiplier": 1.0,
            "residual_multiplier": 1.0, "logits_scaling": 1.0,
        }),
        Architecture::Llama => json!({ "rms_norm_eps": 1e-6, "rope_theta": 10_000.0 }),
        Architecture::Mistral => json!({
            "hidden_act": "silu", "num_key_value_heads": 8, "rms_norm_eps": 1e-6, "rope_theta": 10_000.0,
            "sliding_window": 4096,
        }),
        Architecture::Olmo2 => json!({
            "attention_bias": false, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10_000.0,
            "tie_word_embeddings": false,
        }),
        Architecture::Phi3 => json!({
            "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10_000.0, "partial_rotary_factor": 1.0,
            "original_max_position_embeddings": 4096, "sliding_window": null, "tie_word_embeddings": false,
        }),
        Architecture::Qwen2 => json!({
            "hidden_act": "silu", "num_key_value_heads": 32, "rms_norm_eps": 1e-6, "rope_theta": 10_000.0,
            "max_window_layers": 28, "use_sliding_window": false, "sliding_window": 4096,
            "tie_word_embeddings": false,
        }),
        Architecture::Qwen3 => json!({
            "hidden_act": "silu", "num_key_value_heads": 32, "head_dim": 128, "attention_bias": false,
            "rms_norm_eps": 1e-6, "rope_theta": 10_000.0, "max_window_layers": 28, "use_sliding_window": false,
            "sliding_window": 4096, "tie_word_embeddings": false,
        }),
        Architecture::SmolLm3 => json!({
            "hidden_act": "silu", "num_key_value_heads": 4, "rms_norm_eps": 1e-6, "rope_theta": 2_000_000.0,
            "no_rope_layer_interval": 4, "use_sliding_window": false, "tie_word_embeddings": true,
        }),
        Architecture::StableLm => json!({
            "hidden_act": "silu", "num_key_value_heads": 32, "layer_norm_eps": 1e-5, "rope_theta": 10_000.0,
            "partial_rotary_factor": 0.25, "use_qkv_bias": false, "qk_layernorm": false, "use_parallel_residual": false,
        }),
        Architecture::Gpt2 | Architecture::Other(_) => Value::Null,
    }
}
