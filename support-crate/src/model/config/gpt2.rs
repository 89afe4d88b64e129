//! GPT-2.
//!
//! Source: `GPT2Config` in transformers `models/gpt2/configuration_gpt2.py`.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    Architecture, Biases, DecoderConfig, LayerAttention, NormKind, Positions, SoftCaps, activation, check_causal,
    check_layers, divided, keys_as, token_ids,
};
use crate::error::Result;

/// The file's own keys; what has a default in transformers has the same one here.
#[derive(Deserialize)]
struct Keys {
    vocab_size: usize,
    #[serde(alias = "n_ctx")]
    n_positions: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_inner: Option<usize>,
    activation_function: Option<String>,
    layer_norm_epsilon: Option<f64>,
    scale_attn_weights: Option<bool>,
    scale_attn_by_inverse_layer_idx: Option<bool>,
    is_causal: Option<bool>,
    tie_word_embeddings: Option<bool>,
    #[serde(default)]
    eos_token_id: Value,
}

pub(super) fn parse(mut keys: Map<String, Value>) -> Result<DecoderConfig> {
    // Older files have both names for the same number.
    if keys.contains_key("n_positions") {
        keys.remove("n_ctx");
    }
    let keys: Keys = keys_as(Architecture::Gpt2, keys)?;
    check_causal("is_causal", keys.is_causal, false)?;
    check_layers(keys.n_layer)?;
    let head_dim = divided(("n_embd", keys.n_embd), ("n_head", keys.n_head))?;
    Ok(DecoderConfig {
        architecture: Architecture::Gpt2,
        vocab_size: keys.vocab_size,
        context_len: keys.n_positions,
        hidden_size: keys.n_embd,
        n_layer: keys.n_layer,
        n_head: keys.n_head,
        n_kv_head: keys.n_head,
        head_dim,
        intermediate_size: keys.n_inner.unwrap_or(keys.n_embd.saturating_mul(4)),
        activation: activation(keys.activation_function.as_deref().unwrap_or("gelu_new"))?,
        gated: false,
        norm: NormKind::Layer,
        norm_epsilon: keys.layer_norm_epsilon.unwrap_or(1e-5),
        qk_norm: None,
        parallel_residual: false,
        embedding_scale: 1.0,
        residual_multiplier: 1.0,
        logits_scaling: 1.0,
        positions: Positions::Learned,
        biases: Biases { attention_in: true, attention_out: true, mlp: true },
        query_pre_attn_scalar: if keys.scale_attn_weights.unwrap_or(true) { head_dim as f64 } else { 1.0 },
        scale_attn_by_inverse_layer_idx: keys.scale_attn_by_inverse_layer_idx.unwrap_or(false),
        soft_caps: SoftCaps::default(),
        layers: vec![LayerAttention::default(); keys.n_layer],
        tie_word_embeddings: keys.tie_word_embeddings.unwrap_or(true),
        eos_token_ids: token_ids(&keys.eos_token_id),
        quantization: None,
        checkpoint: None,
    })
}
