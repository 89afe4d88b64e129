//! Which families there are, and how to call candle-transformers' model of each.
//!
//! There is one adapter for each shape of call ([`own_cache`], [`separate_cache`]), not for each model.

use candle_core::Tensor;
use candle_nn::VarBuilder;
use candle_transformers::models::smol::smollm3;
use candle_transformers::models::{gemma2, gemma3, granite, llama, mistral, olmo2, phi3, qwen2, qwen3, stable_lm};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::config::{self, FamilyConfig};
use crate::error::{Error, Result};
use crate::model::Architecture;

/// A model of candle-transformers, to be called with token ids (B, T) and the number of tokens that come before them,
/// which it remembers. Its family's [`Output`] says how to read the result.
pub(super) type Call = Box<dyn FnMut(&Tensor, usize) -> candle_core::Result<Tensor> + Send + Sync>;

/// What is known of a family.
pub(super) struct Family {
    /// Which one it is.
    pub architecture: Architecture,
    /// Keys that candle-transformers ignores, each with the value that it computes with, as JSON.
    pub fixed: &'static [(&'static str, &'static str)],
    /// Whether `head_dim` is used; if not, a head is as wide as the hidden state divided by the number of heads.
    pub has_head_dim: bool,
    /// Whether the angles of rotary positions are float32 even if the weights are not. In bfloat16, positions beyond
    /// 256 are not all distinct.
    pub exact_positions_in_half: bool,
    /// What becomes of a sliding window.
    pub window: Window,
    /// What a call gives.
    pub output: Output,
    /// What else there is to check and to change in a config.
    pub adapt: fn(&mut FamilyConfig) -> Result<()>,
    /// What a tensor is multiplied by when it is loaded: a setting that candle-transformers ignores.
    pub factor: fn(&FamilyConfig, &str) -> f64,
    /// The model over the tensors of `VarBuilder`, with nothing in its cache.
    pub build: fn(Map<String, Value>, VarBuilder<'_>) -> Result<Call>,
}

/// What candle-transformers makes of a sliding window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// It has none.
    Never,
    /// Its mask is off by one, and there is none for a single token after others: texts no longer than the window, in
    /// which it hides nothing, are exact.
    LimitsContext,
    /// Only a single token after others sees the right part of the past: whatever does not fit into the window goes in
    /// one token at a time.
    LimitsPrefill,
}

/// What a call of candle-transformers' model gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    /// Logits after the last token: (B, 1, V) or (B, V).
    LastLogits,
    /// The hidden state of each token, normed, for the head: (B, T, C).
    HiddenStates,
}

/// Every family, by name.
pub(super) static FAMILIES: [Family; 11] = [
    Family {
        architecture: Architecture::Gemma2,
        fixed: &[("tie_word_embeddings", "true"), FULL_ROTATION],
        has_head_dim: true,
        window: Window::LimitsContext,
        adapt: config::check_query_scale,
        build: |keys, vb| own_cache(gemma2::Model::new(false, &read(keys)?, vb)?, gemma2::Model::forward),
        ..PLAIN
    },
    Family {
        architecture: Architecture::Gemma3Text,
        fixed: &[
            ("tie_word_embeddings", "true"),
            // transformers reads it and then ignores it.
            ("attn_logit_softcapping", "null"),
            ("use_bidirectional_attention", "false"),
            FULL_ROTATION,
        ],
        has_head_dim: true,
        window: Window::LimitsPrefill,
        adapt: config::gemma3,
        build: |keys, vb| own_cache(gemma3::Model::new(false, &read(keys)?, vb)?, gemma3::Model::forward),
        ..PLAIN
    },
    Family {
        architecture: Architecture::Granite,
        fixed: &[SILU, ("attention_bias", "false"), ("mlp_bias", "false"), FULL_ROTATION],
        exact_positions_in_half: true,
        adapt: config::check_multipliers,
        factor: config::granite_factor,
        build: |keys, vb| {
            let config = read::<granite::GraniteConfig>(keys)?.into_config(false);
            let cache = granite::Cache::new(true, vb.dtype(), &config, vb.device())?;
            separate_cache(granite::Granite::load(vb, &config)?, cache, granite::Granite::forward)
        },
        ..PLAIN
    },
    Family {
        architecture: Architecture::Llama,
        fixed: &[SILU, ("attention_bias", "false"), ("mlp_bias", "false"), FULL_ROTATION],
        exact_positions_in_half: true,
        build: |keys, vb| {
            let config = read::<llama::LlamaConfig>(keys)?.into_config(false);
            let cache = llama::Cache::new(true, vb.dtype(), &config, vb.device())?;
            separate_cache(llama::Llama::load(vb, &config)?, cache, llama::Llama::forward)
        },
        ..PLAIN
    },
    Family {
        architecture: Architecture::Mistral,
        fixed: &[("attention_bias", "false"), FULL_ROTATION],
        has_head_dim: true,
        exact_positions_in_half: true,
        window: Window::LimitsContext,
        build: |keys, vb| own_cache(mistral::Model::new(&read(keys)?, vb)?, mistral::Model::forward),
        ..PLAIN
    },
    Family {
        architecture: Architecture::Olmo2,
        fixed: &[("clip_qkv", "null"), FULL_ROTATION],
        build: |keys, vb| own_cache(olmo2::Model::new(&read(keys)?, vb)?, olmo2::Model::forward),
        ..PLAIN
    },
    Family {
        architecture: Architecture::Phi3,
        window: Window::LimitsContext,
        build: |keys, vb| own_cache(phi3::Model::new(&read(keys)?, vb)?, phi3::Model::forward),
        ..PLAIN
    },
    Family {
        architecture: Architecture::Qwen2,
        fixed: &[("use_sliding_window", "false"), FULL_ROTATION],
        output: Output::HiddenStates,
        adapt: config::qwen2,
        build: |keys, vb| {
            let model = qwen2::Model::new(&read(keys)?, vb)?;
            own_cache(model, |model, ids, past_len| model.forward(ids, past_len, None))
        },
        ..PLAIN
    },
    Family {
        architecture: Architecture::Qwen3,
        fixed: &[("use_sliding_window", "false"), FULL_ROTATION],
        has_head_dim: true,
        exact_positions_in_half: true,
        output: Output::HiddenStates,
        build: |keys, vb| own_cache(qwen3::Model::new(&read(keys)?, vb)?, qwen3::Model::forward),
        ..PLAIN
    },
    Family {
        architecture: Architecture::SmolLm3,
        fixed: &[("use_sliding_window", "false"), FULL_ROTATION],
        exact_positions_in_half: true,
        output: Output::HiddenStates,
        adapt: config::smollm3,
        build: |keys, vb| own_cache(smollm3::Model::new(&read(keys)?, vb)?, smollm3::Model::forward),
        ..PLAIN
    },
    Family {
        architecture: Architecture::StableLm,
        fixed: &[("use_parallel_residual", "false"), ("qk_layernorm", "false")],
        adapt: config::stablelm,
        build: |keys, vb| own_cache(stable_lm::Model::new(&read(keys)?, vb)?, stable_lm::Model::forward),
        ..PLAIN
    },
];

/// What most families have in common.
const PLAIN: Family = Family {
    architecture: Architecture::Other(""),
    fixed: &[],
    has_head_dim: false,
    exact_positions_in_half: false,
    window: Window::Never,
    output: Output::LastLogits,
    adapt: |_| Ok(()),
    factor: |_, _| 1.0,
    build: |_, _| Err(Error::system("a family without a model")),
};

const SILU: (&str, &str) = ("hidden_act", r#""silu""#);
const FULL_ROTATION: (&str, &str) = ("partial_rotary_factor", "1.0");

/// The family of a `model_type`.
pub(super) fn find(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.architecture.name() == model_type)
}

/// A model that keeps keys and values itself: `forward(&mut self, ids, past_len)`.
fn own_cache<M: Send + Sync + 'static>(
    mut model: M,
    forward: impl Fn(&mut M, &Tensor, usize) -> candle_core::Result<Tensor> + Send + Sync + 'static,
) -> Result<Call> {
    Ok(Box::new(move |ids, past_len| forward(&mut model, ids, past_len)))
}

/// A model that is passed keys and values: `forward(&self, ids, past_len, cache)`.
fn separate_cache<M: Send + Sync + 'static, C: Send + Sync + 'static>(
    model: M,
    mut cache: C,
    forward: impl Fn(&M, &Tensor, usize, &mut C) -> candle_core::Result<Tensor> + Send + Sync + 'static,
) -> Result<Call> {
    Ok(Box::new(move |ids, past_len| forward(&model, ids, past_len, &mut cache)))
}

/// A config as candle-transformers has it.
fn read<T: DeserializeOwned>(keys: Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(keys)).map_err(|cause| Error::format(cause.to_string()))
}
