//! `config.json` of a model, as Hugging Face writes it: which architecture, and of which size.

mod defaults;
mod gpt2;
mod llama;
mod rotary;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use quantlab_kernels::Activation;
use quantlab_kernels::soft_cap;

pub(in crate::model) use llama::rope;
pub(in crate::model) use rotary::RopeScaling;

use super::Architecture;
use crate::error::{Context, Error, Result};
use crate::quant::{Checkpoint, QuantizationConfig};
use crate::source::ModelFile;

/// The shape of a decoder-only transformer and the choices in which the architectures differ.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderConfig {
    /// `model_type`: how the tensors are named.
    pub architecture: Architecture,
    /// Number of different tokens.
    pub vocab_size: usize,
    /// Longest sequence, in tokens.
    pub context_len: usize,
    /// Width of the hidden state.
    pub hidden_size: usize,
    /// Transformer blocks.
    pub n_layer: usize,
    /// Attention heads of a block.
    pub n_head: usize,
    /// Heads of keys and values; divides `n_head`, and is less where several heads share them.
    pub n_kv_head: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width inside the feed-forward part.
    pub intermediate_size: usize,
    /// Function inside the feed-forward part.
    pub activation: Activation,
    /// Whether that function gates a second product (SwiGLU) rather than standing between two.
    pub gated: bool,
    /// How numbers are normed.
    pub norm: NormKind,
    /// Added to the variance, or mean square, in norms.
    pub norm_epsilon: f64,
    /// Whether queries and keys are normed too.
    pub qk_norm: Option<QkNorm>,
    /// Whether both parts of a block read the same, after one norm, instead of one after the other.
    pub parallel_residual: bool,
    /// What the embeddings of tokens are multiplied by.
    pub embedding_scale: f32,
    /// What is multiplied into the output of each part of a block before it is added to the hidden state.
    pub residual_multiplier: f32,
    /// What logits are divided by.
    pub logits_scaling: f32,
    /// How a token's position enters the computation.
    pub positions: Positions,
    /// Which products have a bias.
    pub biases: Biases,
    /// Attention scores are divided by the square root of this: the width of a head, in most models.
    pub query_pre_attn_scalar: f64,
    /// Whether they are divided by the layer's number (from 1) as well.
    pub scale_attn_by_inverse_layer_idx: bool,
    /// What large scores and logits are bent towards.
    pub soft_caps: SoftCaps,
    /// In what the attention of each layer differs from that of others.
    pub layers: Vec<LayerAttention>,
    /// Whether the output matrix is the token embedding.
    pub tie_word_embeddings: bool,
    /// The tokens that end a text, each on its own.
    pub eos_token_ids: Vec<u32>,
    /// How bitsandbytes quantized the checkpoint, if it did.
    pub quantization: Option<QuantizationConfig>,
    /// How the checkpoint stores the layers that somebody else quantized.
    pub checkpoint: Option<Checkpoint>,
}

/// How numbers are normed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// To mean 0 and variance 1, then scaled and shifted.
    Layer,
    /// Divided by the root of the mean square, then scaled.
    Rms,
    /// The same, where files have the scale less 1.
    RmsPlusOne,
}

/// How queries are normed, and keys, before they are rotated; without shifts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// Each head on its own, all by the same scales.
    OneForAllHeads,
    /// Each head on its own, by scales of its own.
    OneForEachHead,
    /// The numbers of all heads together.
    OverAllHeads,
}

/// How a token's position enters the computation.
#[derive(Debug, Clone, PartialEq)]
pub enum Positions {
    /// A learned vector for each position is added to the token's.
    Learned,
    /// Queries and keys are rotated by angles that grow with the position.
    Rotary {
        /// One for all layers, or one for each kind of them.
        rotations: Vec<Rotation>,
    },
}

/// By what queries and keys are rotated.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotation {
    /// The angle of each pair of numbers for one position: `inv_freq` in transformers. There are D / 2 of them, or
    /// fewer if only the first numbers of a head are rotated.
    pub frequencies: Vec<f32>,
    /// What the rotated numbers are multiplied by: `attention_scaling` in transformers.
    pub factor: f32,
}

/// In what the attention of a layer differs from that of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerAttention {
    /// How many tokens back it sees, itself included; all if `None`.
    pub window: Option<usize>,
    /// Which of the [rotations](Positions::Rotary) it uses; `None` for a layer without positions.
    pub rotation: Option<usize>,
}

/// Numbers x that become `cap * tanh(x / cap)`, and so do not exceed the cap.
///
/// Source: Gemma Team 2024, arXiv:2408.00118.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SoftCaps {
    /// The cap of attention scores, if they have one.
    pub attention: Option<f32>,
    /// The cap of logits.
    pub logits: Option<f32>,
}

/// Which products have a bias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Biases {
    /// Queries, keys and values.
    pub attention_in: bool,
    /// The output of attention.
    pub attention_out: bool,
    /// Both products of the feed-forward part.
    pub mlp: bool,
}

impl DecoderConfig {
    /// Reads and checks a `config.json`.
    ///
    /// # Errors
    /// Not JSON, a model of another architecture, a key that is missing or out of range, or a quantization
    /// that is not known.
    pub fn read(file: &ModelFile) -> Result<Self> {
        Self::parse(&file.read_config()?).context(|| file.to_string())
    }

    fn parse(json: &[u8]) -> Result<Self> {
        let keys: Map<String, Value> = serde_json::from_slice(json).context(|| "not a JSON object")?;
        let (quantization, checkpoint) = match keys.get("quantization_config") {
            None | Some(Value::Null) => (None, None),
            Some(value) => match Checkpoint::read(value).map_err(Error::in_file)? {
                None => (Some(QuantizationConfig::from_json(value).map_err(Error::in_file)?), None),
                checkpoint => (None, checkpoint),
            },
        };
        let model_type = keys.get("model_type").map_or(Some("gpt2"), Value::as_str);
        let config = match Architecture::ALL.into_iter().find(|known| Some(known.name()) == model_type) {
            Some(Architecture::Gpt2) => gpt2::parse(keys)?,
            Some(architecture) => llama::parse(architecture, keys)?,
            None => {
                return Err(Error::format(format!(
                    "models of type `{}` are not supported",
                    model_type.unwrap_or("(not a string)")
                ))
                .hint(format!("supported types are {}", Architecture::ALL.map(Architecture::name).join(", "))));
            }
        };
        config.check()?;
        Ok(Self { quantization, checkpoint, ..config })
    }

    /// Rejects sizes that no model has: they would take memory that no machine has.
    fn check(&self) -> Result<()> {
        let sizes = [
            ("vocabulary", self.vocab_size, 1 << 24),
            ("context", self.context_len, 1 << 24),
            ("hidden size", self.hidden_size, 1 << 20),
            ("number of layers", self.n_layer, MOST_LAYERS),
            ("number of heads", self.n_head, 1 << 16),
            ("number of key-value heads", self.n_kv_head, self.n_head),
            ("width of a head", self.head_dim, 1 << 16),
            ("intermediate size", self.intermediate_size, 1 << 22),
        ];
        let windows = self.layers.iter().map(|layer| ("sliding window", layer.window.unwrap_or(1), usize::MAX));
        sizes.into_iter().chain(windows).try_for_each(|(name, value, most)| check_size(name, value, most))?;
        if !self.n_head.is_multiple_of(self.n_kv_head) {
            return Err(Error::format(format!(
                "{} heads cannot share {} key-value heads evenly",
                self.n_head, self.n_kv_head
            )));
        }
        if !(self.norm_epsilon >= 0.0 && self.norm_epsilon < 1.0) {
            return Err(Error::format(format!(
                "the epsilon of the norms is {}; it must lie between 0 and 1",
                self.norm_epsilon
            )));
        }
        let SoftCaps { attention, logits } = self.soft_caps;
        for (name, value) in [
            ("query_pre_attn_scalar", Some(self.query_pre_attn_scalar)),
            ("attn_logit_softcapping", attention.map(f64::from)),
            ("final_logit_softcapping", logits.map(f64::from)),
        ] {
            if let Some(value) = value.filter(|value| !(f64::from(f32::MIN_POSITIVE)..=1e30).contains(value)) {
                return Err(Error::format(format!("`{name}` is {value}; it must be positive")));
            }
        }
        Ok(())
    }

    /// What attention scores of a layer (from 0) are multiplied by.
    pub(super) fn attention_scale(&self, layer: usize) -> f32 {
        let by_head = (self.query_pre_attn_scalar as f32).sqrt();
        let by_layer = if self.scale_attn_by_inverse_layer_idx { (layer + 1) as f32 } else { 1.0 };
        1.0 / (by_head * by_layer)
    }

    /// What is done to logits after the product with the head, if anything is.
    pub(super) fn change_logits(&self) -> Option<impl Fn(&mut [f32]) + Sync> {
        let (scaling, cap) = (self.logits_scaling, self.soft_caps.logits);
        (scaling != 1.0 || cap.is_some()).then_some(move |logits: &mut [f32]| {
            logits.iter_mut().for_each(|logit| *logit /= scaling);
            if let Some(cap) = cap {
                soft_cap(logits, cap);
            }
        })
    }
}

/// The most layers that a model can have.
const MOST_LAYERS: usize = 1 << 12;

/// Rejects a number of layers that no model has, before there is a list of them.
fn check_layers(count: usize) -> Result<()> {
    check_size("number of layers", count, MOST_LAYERS)
}

fn check_size(name: &str, value: usize, most: usize) -> Result<()> {
    match (1..=most).contains(&value) {
        true => Ok(()),
        false => Err(Error::format(format!("the {name} is {value}; it must lie between 1 and {most}"))),
    }
}

/// Refuses what makes each token see those after it, too.
fn check_causal(key: &str, value: Option<bool>, refused: bool) -> Result<()> {
    if value != Some(refused) {
        return Ok(());
    }
    Err(Error::format(format!("`{key}` is {refused}: each of its tokens sees those after it too"))
        .hint("such a model turns texts into vectors and continues none; load one that does"))
}

/// Which layers have a window, by `layer_types`.
fn sliding_layers(types: &Value, n_layer: usize) -> Result<Vec<bool>> {
    let is_sliding = |kind: &Value| match kind.as_str() {
        Some("sliding_attention") => Ok(true),
        Some("full_attention") => Ok(false),
        _ => {
            Err(Error::format(format!("`layer_types` has {kind}; full_attention and sliding_attention are supported")))
        }
    };
    let layers = types.as_array().map_or(&[][..], Vec::as_slice).iter().map(is_sliding).collect::<Result<Vec<_>>>()?;
    match layers.len() == n_layer {
        true => Ok(layers),
        false => Err(Error::format(format!("there are {} `layer_types` for {n_layer} layers", layers.len()))),
    }
}

/// The keys of a config as a structure.
fn keys_as<T: DeserializeOwned>(architecture: Architecture, keys: Map<String, Value>) -> Result<T> {
    // By reference: the keys are wanted again for a message, and may be large.
    let parse = |keys: &Value| T::deserialize(keys).map_err(|cause| cause.to_string());
    let keys = Value::Object(keys);
    parse(&keys).map_err(|cause| {
        // An error about a value does not say which key has the value: that key alone gives the same error.
        let alone = |key: &str, value: &Value| parse(&Value::Object(Map::from_iter([(key.to_owned(), value.clone())])));
        let is_named = cause.contains(" field `");
        let mut all = keys.as_object().into_iter().flatten();
        let key = all.find(|(key, value)| !is_named && alone(key, value).err().as_ref() == Some(&cause));
        let message = key.map_or(cause.clone(), |(key, _)| format!("`{key}`: {cause}"));
        Error::format(message).hint(format!("is this the config.json of a model of type {architecture}?"))
    })
}

/// `total / parts`, where the parts must come out even.
fn divided((total_name, total): (&str, usize), (parts_name, parts): (&str, usize)) -> Result<usize> {
    if parts == 0 || total == 0 || !total.is_multiple_of(parts) {
        return Err(Error::format(format!(
            "`{total_name}` {total} cannot be divided among `{parts_name}` {parts} heads"
        )));
    }
    Ok(total / parts)
}

fn activation(name: &str) -> Result<Activation> {
    match name {
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluNew),
        "gelu" => Ok(Activation::Gelu),
        "relu" => Ok(Activation::Relu),
        "silu" | "swish" => Ok(Activation::Silu),
        other => Err(Error::format(format!("unknown activation function {other:?}"))
            .hint("gelu_new, gelu, relu and silu are supported")),
    }
}

/// A token id, or a list of them; anything else is ignored, as it ends no text.
pub(crate) fn token_ids(value: &Value) -> Vec<u32> {
    let ids = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    ids.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

#[cfg(test)]
mod tests;
