//! The Llama family: Llama, Mistral, Qwen2 and Qwen3, SmolLM3, Phi-3, Gemma 2 and 3, Granite, OLMo 2, StableLM.
//!
//! Source: `models/*/configuration_*.py` and `modeling_*.py` in transformers.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::defaults::add_defaults;
use super::rotary::{RopeParameters, RopeScaling};
use super::{
    Architecture, Biases, DecoderConfig, LayerAttention, NormKind, Positions, QkNorm, SoftCaps, activation,
    check_causal, check_layers, divided, keys_as, sliding_layers, token_ids,
};
use crate::error::{Context, Error, Result};
use crate::source::ModelFile;

/// The file's own keys; what has a default in transformers has the same one in [`add_defaults`].
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
    /// What Gemma calls it.
    hidden_activation: Option<String>,
    rms_norm_eps: Option<f64>,
    /// What StableLM calls it.
    layer_norm_eps: Option<f64>,
    rope_theta: Option<f32>,
    rope_local_base_freq: Option<f32>,
    rope_scaling: Option<RopeParameters>,
    /// The name since transformers 5; `rope_theta` is in here too.
    rope_parameters: Option<RopeParameters>,
    partial_rotary_factor: Option<f64>,
    original_max_position_embeddings: Option<f32>,
    no_rope_layers: Option<Vec<u8>>,
    no_rope_layer_interval: Option<usize>,
    attention_bias: Option<bool>,
    use_qkv_bias: Option<bool>,
    mlp_bias: Option<bool>,
    qk_layernorm: Option<bool>,
    use_parallel_residual: Option<bool>,
    embedding_multiplier: Option<f32>,
    attention_multiplier: Option<f32>,
    residual_multiplier: Option<f32>,
    logits_scaling: Option<f32>,
    clip_qkv: Option<f32>,
    query_pre_attn_scalar: Option<f64>,
    attn_logit_softcapping: Option<f32>,
    final_logit_softcapping: Option<f32>,
    use_bidirectional_attention: Option<bool>,
    is_causal: Option<bool>,
    sliding_window: Option<usize>,
    use_sliding_window: Option<bool>,
    max_window_layers: Option<usize>,
    #[serde(alias = "_sliding_window_pattern")]
    sliding_window_pattern: Option<usize>,
    layer_types: Option<Value>,
    tie_word_embeddings: Option<bool>,
    #[serde(default)]
    eos_token_id: Value,
}

/// What a config says, with its family's defaults.
fn keys_of(architecture: Architecture, mut keys: Map<String, Value>) -> Result<Keys> {
    add_defaults(architecture, &mut keys);
    // Some files have both names for the same number.
    if keys.contains_key("sliding_window_pattern") {
        keys.remove("_sliding_window_pattern");
    }
    keys_as(architecture, keys)
}

pub(super) fn parse(architecture: Architecture, keys: Map<String, Value>) -> Result<DecoderConfig> {
    let keys = keys_of(architecture, keys)?;
    let is_gemma = [Architecture::Gemma2, Architecture::Gemma3Text].contains(&architecture);
    check_causal("use_bidirectional_attention", keys.use_bidirectional_attention, true)?;
    check_causal("is_causal", keys.is_causal, false)?;
    check_layers(keys.num_hidden_layers)?;
    check_compared(&keys, architecture)?;
    let head_dim = match keys.head_dim {
        Some(head_dim) => head_dim,
        None => divided(("hidden_size", keys.hidden_size), ("num_attention_heads", keys.num_attention_heads))?,
    };
    let (positions, context_len) = positions(&keys, architecture, head_dim)?;
    // Of the others, transformers ignores what the config says.
    let has_no_choice = [Architecture::Mistral, Architecture::Qwen2, Architecture::Phi3, Architecture::StableLm];
    let bias = !has_no_choice.contains(&architecture) && keys.attention_bias.unwrap_or(false);
    let mlp_bias = [Architecture::Llama, Architecture::SmolLm3, Architecture::Granite].contains(&architecture);
    let is_stablelm = architecture == Architecture::StableLm;
    let [embedding_multiplier, attention_multiplier, residual_multiplier, logits_scaling] =
        keys.multipliers(architecture)?;
    let act = keys.hidden_act.as_deref().unwrap_or("silu");
    Ok(DecoderConfig {
        architecture,
        vocab_size: keys.vocab_size,
        context_len,
        hidden_size: keys.hidden_size,
        n_layer: keys.num_hidden_layers,
        n_head: keys.num_attention_heads,
        n_kv_head: keys.num_key_value_heads.unwrap_or(keys.num_attention_heads),
        head_dim,
        intermediate_size: keys.intermediate_size,
        activation: activation(keys.hidden_activation.as_deref().filter(|_| is_gemma).unwrap_or(act))?,
        gated: true,
        norm: match architecture {
            _ if is_gemma => NormKind::RmsPlusOne,
            Architecture::StableLm => NormKind::Layer,
            _ => NormKind::Rms,
        },
        norm_epsilon: if is_stablelm { keys.layer_norm_eps } else { keys.rms_norm_eps }.unwrap_or(1e-6),
        qk_norm: match architecture {
            Architecture::Qwen3 | Architecture::Gemma3Text => Some(QkNorm::OneForAllHeads),
            Architecture::Olmo2 => Some(QkNorm::OverAllHeads),
            Architecture::StableLm if keys.qk_layernorm == Some(true) => Some(QkNorm::OneForEachHead),
            _ => None,
        },
        parallel_residual: is_stablelm && keys.use_parallel_residual == Some(true),
        embedding_scale: if is_gemma { (keys.hidden_size as f32).sqrt() } else { embedding_multiplier },
        residual_multiplier,
        logits_scaling,
        positions,
        biases: Biases {
            attention_in: bias || architecture == Architecture::Qwen2 || is_stablelm && keys.use_qkv_bias == Some(true),
            attention_out: bias,
            mlp: mlp_bias && keys.mlp_bias.unwrap_or(false),
        },
        query_pre_attn_scalar: match (architecture, keys.query_pre_attn_scalar) {
            (Architecture::Granite, _) => f64::from(attention_multiplier).powi(-2),
            (_, Some(scalar)) if is_gemma => scalar,
            _ => head_dim as f64,
        },
        scale_attn_by_inverse_layer_idx: false,
        soft_caps: SoftCaps {
            // transformers reads it for Gemma 3 too, and then ignores it.
            attention: keys.attn_logit_softcapping.filter(|_| architecture == Architecture::Gemma2),
            logits: keys.final_logit_softcapping.filter(|_| is_gemma),
        },
        layers: layers(&keys, architecture)?,
        tie_word_embeddings: keys.tie_word_embeddings.unwrap_or(false),
        eos_token_ids: token_ids(&keys.eos_token_id),
        quantization: None,
        checkpoint: None,
    })
}

impl Keys {
    /// Those of layers that see everything, and of those with a window.
    fn rope_parameters(&self) -> [RopeParameters; 2] {
        let old = self.rope_scaling.as_ref().filter(|old| **old != RopeParameters::default());
        let mut named = old.or(self.rope_parameters.as_ref()).cloned().unwrap_or_default();
        let [full, sliding] = [named.full_attention.take(), named.sliding_attention.take()];
        [full.map_or(named, |full| *full), sliding.map_or_else(RopeParameters::default, |sliding| *sliding)]
    }

    /// The same, where Phi-3 has one of the numbers beside the other sizes of the model, which counts before what is in
    /// there.
    fn rope_parameters_of(&self, architecture: Architecture) -> [RopeParameters; 2] {
        let [mut full, sliding] = self.rope_parameters();
        if architecture == Architecture::Phi3 {
            let beside = self.original_max_position_embeddings;
            full.original_max_position_embeddings = beside.or(full.original_max_position_embeddings);
        }
        [full, sliding]
    }

    /// How many of a head's numbers are rotated, as a part of all.
    fn rotated(&self) -> Option<f64> {
        self.rope_parameters()[0].partial_rotary_factor.or(self.partial_rotary_factor)
    }

    /// Those of embeddings, attention scores and residuals, and what logits are divided by.
    fn multipliers(&self, architecture: Architecture) -> Result<[f32; 4]> {
        let all = [
            ("embedding_multiplier", self.embedding_multiplier),
            ("attention_multiplier", self.attention_multiplier),
            ("residual_multiplier", self.residual_multiplier),
            ("logits_scaling", self.logits_scaling),
        ];
        let mut multipliers = [1.0; 4];
        if architecture == Architecture::Granite {
            for (multiplier, (name, value)) in multipliers.iter_mut().zip(all) {
                *multiplier = value.unwrap_or(1.0);
                if !(1e-9..=1e9).contains(multiplier) {
                    return Err(Error::format(format!("`{name}` is {multiplier}; it must lie between 1e-9 and 1e9")));
                }
            }
        }
        Ok(multipliers)
    }
}

/// Refuses settings of some families that have not been compared with transformers.
fn check_compared(keys: &Keys, architecture: Architecture) -> Result<()> {
    if ![Architecture::Granite, Architecture::Olmo2, Architecture::StableLm].contains(&architecture) {
        return Ok(());
    }
    let is_stablelm = architecture == Architecture::StableLm;
    let scaling = &keys.rope_parameters()[0];
    let is_partial = |factor: &f64| !is_stablelm && *factor != 1.0;
    let is_other = |width: &usize| is_stablelm && width.checked_mul(keys.num_attention_heads) != Some(keys.hidden_size);
    let has_windows =
        |types: &Value| sliding_layers(types, keys.num_hidden_layers).is_ok_and(|all| all.contains(&true));
    let refused = [
        ("rope_scaling", scaling.depends_on_length().then(|| scaling.kind().to_owned()), "default, linear or llama3"),
        ("partial_rotary_factor", keys.rotated().filter(is_partial).map(|factor| factor.to_string()), "1"),
        (
            "head_dim",
            keys.head_dim.filter(is_other).map(|width| width.to_string()),
            "the width that `hidden_size` leaves",
        ),
        ("clip_qkv", keys.clip_qkv.map(|limit| limit.to_string()), "null"),
        ("layer_types", keys.layer_types.clone().filter(has_windows).map(|types| types.to_string()), "full_attention"),
    ];
    match refused.into_iter().find_map(|(key, value, computed)| Some((key, value?, computed))) {
        None => Ok(()),
        Some((key, value, computed)) => Err(Error::format(format!(
            "`{key}` is {value}; models of type {architecture} are computed only with {computed}"
        ))),
    }
}

/// What a GGUF file says of a model's positions.
#[derive(Debug)]
pub(in crate::model) struct Rope {
    /// The base of the angles.
    pub theta: f32,
    /// That of layers with a window, for a family that has another one there.
    pub local_theta: Option<f32>,
    /// How many of a head's numbers are rotated.
    pub rotated: usize,
    pub scaling: RopeScaling,
    /// The longest text, even if not all of it is computed here.
    pub context_len: usize,
    /// Of how long texts the model was trained on, for Phi-3.
    pub trained: Option<usize>,
}

/// The positions of a model whose config [`parse`] accepts.
///
/// # Errors
/// A config that cannot be read, or that lacks numbers for longer texts; angles of layers with a window that are scaled.
pub(in crate::model) fn rope(config: &DecoderConfig, file: &ModelFile) -> Result<Rope> {
    let (architecture, of_file) = (config.architecture, || file.to_string());
    let keys = keys_of(architecture, serde_json::from_slice(&file.read_config()?).context(of_file)?)?;
    let [full, sliding] = keys.rope_parameters_of(architecture);
    let theta = full.theta(keys.rope_theta);
    let Positions::Rotary { rotations } = &config.positions else {
        return Err(Error::system("positions that are learned have no angles"));
    };
    let local = (architecture == Architecture::Gemma3Text).then_some(&sliding);
    if let Some(scaled) = local.filter(|local| local.kind() != "default") {
        return Err(Error::input(format!(
            "the angles of its layers with a window are scaled as `{}`, which a GGUF file cannot say",
            scaled.kind()
        )));
    }
    Ok(Rope {
        theta,
        local_theta: local.map(|local| local.theta(keys.rope_local_base_freq)),
        rotated: 2 * rotations[0].frequencies.len(),
        scaling: full.scaling(theta, &rotations[0]).context(of_file)?,
        context_len: keys.max_position_embeddings,
        trained: full
            .original_max_position_embeddings
            .filter(|_| architecture == Architecture::Phi3)
            .map(|n| n as usize),
    })
}

/// What each layer sees, and by what its queries and keys are turned.
fn layers(keys: &Keys, architecture: Architecture) -> Result<Vec<LayerAttention>> {
    let count = keys.num_hidden_layers;
    let has_rope = |layer: usize| match &keys.no_rope_layers {
        _ if architecture != Architecture::SmolLm3 => true,
        Some(rotated) if !rotated.is_empty() => rotated.get(layer).is_none_or(|&rotated| rotated != 0),
        _ => !(layer + 1).is_multiple_of(keys.no_rope_layer_interval.unwrap_or(4)),
    };
    if let Some(rotated) = keys.no_rope_layers.as_ref().filter(|rotated| ![0, count].contains(&rotated.len())) {
        return Err(Error::format(format!("there are {} `no_rope_layers` for {count} layers", rotated.len())));
    }
    let by_name = |otherwise: &dyn Fn(usize) -> bool| match &keys.layer_types {
        None | Some(Value::Null) => Ok((0..count).map(otherwise).collect()),
        Some(types) => sliding_layers(types, count),
    };
    let switched_on = keys.use_sliding_window.unwrap_or(false);
    // Those of families that have none are whatever somebody wrote.
    if ![Architecture::Llama, Architecture::Mistral, Architecture::Phi3].contains(&architecture) {
        by_name(&|_| false)?;
    }
    let sliding: Vec<bool> = match architecture {
        Architecture::Mistral | Architecture::Phi3 => vec![true; count],
        Architecture::Qwen2 | Architecture::Qwen3 if switched_on => {
            by_name(&|layer| layer >= keys.max_window_layers.unwrap_or(28))?
        }
        // What it names has a window even if the switch is off.
        Architecture::SmolLm3 if switched_on || keys.layer_types.is_some() => by_name(&|layer| !has_rope(layer))?,
        Architecture::Gemma2 => by_name(&|layer| layer.is_multiple_of(2))?,
        Architecture::Gemma3Text => {
            by_name(&|layer| !(layer + 1).is_multiple_of(keys.sliding_window_pattern.unwrap_or(6)))?
        }
        _ => vec![false; count],
    };
    let layer = |(layer, is_sliding): (usize, bool)| LayerAttention {
        window: keys.sliding_window.filter(|_| is_sliding),
        rotation: has_rope(layer).then_some(usize::from(is_sliding && architecture == Architecture::Gemma3Text)),
    };
    Ok(sliding.into_iter().enumerate().map(layer).collect())
}

/// The rotations, of which Gemma 3 has a second for layers with a window, and the longest text that they are for.
fn positions(keys: &Keys, architecture: Architecture, head_dim: usize) -> Result<(Positions, usize)> {
    let [full, sliding] = keys.rope_parameters_of(architecture);
    let theta = full.theta(keys.rope_theta);
    let width = match keys.rotated() {
        Some(factor) if [Architecture::Phi3, Architecture::StableLm].contains(&architecture) => {
            // Cut off as in Python, but not for what a file's own division has lost.
            (head_dim as f64 * factor + 1e-6) as usize
        }
        _ => head_dim,
    };
    if width > head_dim {
        return Err(Error::format(format!("{width} numbers of a head are to be rotated, which has {head_dim}")));
    }
    let mut context_len = keys.max_position_embeddings;
    let mut rotations = vec![full.rotation(theta, width, context_len)?];
    if full.depends_on_length() {
        context_len = context_len.min(full.original_max_position_embeddings.unwrap_or(0.0) as usize);
    }
    if architecture == Architecture::Gemma3Text {
        let theta = sliding.theta(keys.rope_local_base_freq);
        rotations.push(sliding.rotation(theta, width, context_len)?);
    }
    Ok((Positions::Rotary { rotations }, context_len))
}
