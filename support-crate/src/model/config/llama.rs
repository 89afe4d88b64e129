//! The Llama family: Llama, Mistral, Qwen2.
//!
//! Source: `LlamaConfig`, `MistralConfig` and `Qwen2Config` in transformers `models/*/configuration_*.py`.

use std::f32::consts::PI;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Architecture, Biases, DecoderConfig, NormKind, Positions, activation, divided, keys_as, token_ids};
use crate::error::{Error, Result};

/// The file's own keys; what has a default in transformers has the same one here.
#[derive(Deserialize)]
struct Keys {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    hidden_act: Option<String>,
    rms_norm_eps: Option<f64>,
    rope_theta: Option<f32>,
    rope_scaling: Option<RopeScaling>,
    /// The name since transformers 5; `rope_theta` is in here too.
    rope_parameters: Option<RopeScaling>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    /// Left out is not the same as null, which is no window.
    #[serde(default = "default_window")]
    sliding_window: Option<usize>,
    use_sliding_window: Option<bool>,
    max_window_layers: Option<usize>,
    layer_types: Option<Vec<String>>,
    tie_word_embeddings: Option<bool>,
    #[serde(default)]
    eos_token_id: Value,
}

fn default_window() -> Option<usize> {
    Some(4096)
}

#[derive(Deserialize)]
struct RopeScaling {
    rope_type: Option<String>,
    /// The older name; transformers writes both.
    r#type: Option<String>,
    rope_theta: Option<f32>,
    factor: Option<f32>,
    low_freq_factor: Option<f32>,
    high_freq_factor: Option<f32>,
    original_max_position_embeddings: Option<f32>,
}

pub(super) fn parse(architecture: Architecture, keys: Map<String, Value>) -> Result<DecoderConfig> {
    let keys: Keys = keys_as(architecture, keys)?;
    let head_dim = match keys.head_dim {
        Some(head_dim) => head_dim,
        None => divided(("hidden_size", keys.hidden_size), ("num_attention_heads", keys.num_attention_heads))?,
    };
    let bias = keys.attention_bias.unwrap_or(false);
    Ok(DecoderConfig {
        architecture,
        vocab_size: keys.vocab_size,
        context_len: keys.max_position_embeddings,
        hidden_size: keys.hidden_size,
        n_layer: keys.num_hidden_layers,
        n_head: keys.num_attention_heads,
        n_kv_head: keys.num_key_value_heads.unwrap_or(keys.num_attention_heads),
        head_dim,
        intermediate_size: keys.intermediate_size,
        activation: activation(keys.hidden_act.as_deref().unwrap_or("silu"))?,
        gated: true,
        norm: NormKind::Rms,
        norm_epsilon: keys.rms_norm_eps.unwrap_or(1e-6),
        positions: Positions::Rotary { frequencies: frequencies(&keys, head_dim)? },
        biases: Biases {
            attention_in: bias || architecture == Architecture::Qwen2,
            attention_out: bias,
            mlp: keys.mlp_bias.unwrap_or(false),
        },
        scale_attn_weights: true,
        scale_attn_by_inverse_layer_idx: false,
        sliding_window: sliding_window(architecture, &keys)?,
        tie_word_embeddings: keys.tie_word_embeddings.unwrap_or(false),
        eos_token_ids: token_ids(&keys.eos_token_id),
        quantization: None,
    })
}

/// The window of all layers. Qwen2 has one only if it is switched on, and even then its first layers may have none.
fn sliding_window(architecture: Architecture, keys: &Keys) -> Result<Option<usize>> {
    let layers = keys.num_hidden_layers;
    let windowed = match architecture {
        Architecture::Mistral => layers,
        Architecture::Qwen2 if !keys.use_sliding_window.unwrap_or(false) => 0,
        Architecture::Qwen2 => match &keys.layer_types {
            Some(types) => types.iter().filter(|name| *name == "sliding_attention").count(),
            None => layers.saturating_sub(keys.max_window_layers.unwrap_or(28)),
        },
        _ => 0,
    };
    match keys.sliding_window {
        Some(window) if windowed == layers => Ok(Some(window)),
        Some(window) if windowed > 0 => Err(Error::format(format!(
            "{windowed} of {layers} layers have a sliding window of {window}; either all or none must have one"
        ))
        .hint(format!("for texts of at most {window} tokens, set `use_sliding_window` to false in the config"))),
        _ => Ok(None),
    }
}

/// The angle by which one position rotates each pair of numbers of a head: `theta^(-2i / D)`, with the change that the
/// config names for models whose context was lengthened after training.
///
/// Source: `ROPE_INIT_FUNCTIONS` in transformers `modeling_rope_utils.py`.
fn frequencies(keys: &Keys, head_dim: usize) -> Result<Vec<f32>> {
    if !head_dim.is_multiple_of(2) || head_dim > 1 << 16 {
        return Err(Error::format(format!("rotary positions need heads of even width, not {head_dim}")));
    }
    let scaling = keys.rope_scaling.as_ref().or(keys.rope_parameters.as_ref());
    let theta = keys.rope_theta.or(scaling.and_then(|scaling| scaling.rope_theta)).unwrap_or(10_000.0);
    if !(theta.is_finite() && theta > 0.0) {
        return Err(Error::format(format!("`rope_theta` is {theta}; it must be positive")));
    }
    let plain = (0..head_dim / 2).map(|i| 1.0 / theta.powf((2 * i) as f32 / head_dim as f32));
    let frequencies = match scaling {
        Some(scaling) => scaling.apply(plain)?,
        None => plain.collect(),
    };
    if !frequencies.iter().all(|frequency| frequency.is_finite()) {
        return Err(Error::format(format!("rotary positions turn infinitely fast with `rope_theta` {theta}"))
            .hint("compare `rope_theta` and `rope_scaling` with the original config"));
    }
    Ok(frequencies)
}

impl RopeScaling {
    /// Applies the scaling to the `plain` frequencies.
    fn apply(&self, plain: impl Iterator<Item = f32>) -> Result<Vec<f32>> {
        let number = |name: &str, value: Option<f32>| {
            let value = value.filter(|value| value.is_finite() && *value > 0.0);
            value.ok_or_else(|| Error::format(format!("`rope_scaling` needs a positive `{name}`")))
        };
        match self.rope_type.as_deref().or(self.r#type.as_deref()).unwrap_or("default") {
            "default" => Ok(plain.collect()),
            "linear" => {
                let factor = number("factor", self.factor)?;
                Ok(plain.map(|frequency| frequency / factor).collect())
            }
            "llama3" => {
                let factor = number("factor", self.factor)?;
                let low = number("low_freq_factor", self.low_freq_factor)?;
                let high = number("high_freq_factor", self.high_freq_factor)?;
                let trained = number("original_max_position_embeddings", self.original_max_position_embeddings)?;
                if high <= low {
                    return Err(Error::format(format!(
                        "`high_freq_factor` is {high}; it must be above `low_freq_factor`, which is {low}"
                    )));
                }
                // Rotations slower than one turn in the context that the model was trained on are slowed down, fast
                // ones are left alone, and the transition between the two is smooth.
                let scaled = plain.map(|frequency| {
                    let turns = trained * frequency / (2.0 * PI);
                    let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                });
                Ok(scaled.collect())
            }
            other => Err(Error::format(format!("unknown `rope_type` {other:?}"))
                .hint("`default`, `linear` and `llama3` are supported")),
        }
    }
}
