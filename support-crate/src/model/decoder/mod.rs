//! Decoder-only transformers, GPT-2 and the Llama family: the description that every engine computes. Families differ
//! in rows: their names of tensors in [`names`], the rest in their [`DecoderConfig`].
//!
//! Letters in shapes: V tokens in the vocabulary, C width of the hidden state, H heads, J heads of keys and values, D
//! width of a head, I width inside the feed-forward part.

mod loader;
mod names;
mod state_dict;
mod store;

use std::fmt;
use std::path::Path;

use half::{bf16, f16};

use super::cache::check_cache_room;
use super::weights::write;
use super::{
    Architecture, CacheFormat, DecoderConfig, Device, Engine, ModelIdentity, ModelInfo, Positions, Precision,
    TensorInfo, TensorKind, Weights,
};
use crate::error::{Error, Result};
use crate::quant::QuantizationConfig;
use loader::Loader;
pub(super) use names::{HEAD, Names, check_tied};
pub(super) use store::Store;

/// A decoder with its weights where an engine keeps them.
pub(super) struct Decoder<S: Store> {
    pub identity: ModelIdentity,
    pub info: ModelInfo,
    pub tensors: Vec<TensorInfo>,
    pub config: DecoderConfig,
    pub parts: Parts<S>,
    pub store: S,
}

/// The tensors, by what they do rather than by what each family calls them.
pub(super) struct Parts<S: Store> {
    pub token_embedding: S::Tensor,            // (V, C)
    pub position_embedding: Option<S::Tensor>, // (context, C)
    pub blocks: Vec<Block<S>>,
    pub final_norm: Norm<S>,
    /// C -> V; the token embedding if the model has no separate one.
    pub head: Option<Matrix<S>>,
}

pub(super) struct Block<S: Store> {
    pub attention_norm: Option<Norm<S>>,
    /// C -> (H + 2 J) D: queries, keys and values, whose outputs are joined if there are several.
    pub attention_in: Vec<Linear<S>>,
    /// Those of queries and of keys: one for each head, or one for all; see [`QkNorm`](crate::model::QkNorm).
    pub qk_norms: Option<[Vec<Norm<S>>; 2]>,
    /// H D -> C
    pub attention_out: Linear<S>,
    /// That of what attention adds.
    pub attention_post_norm: Option<Norm<S>>,
    /// None too if the part reads what attention does.
    pub mlp_norm: Option<Norm<S>>,
    /// C -> I; if the part is gated C -> 2 I, the gate before what it multiplies, in one or two layers.
    pub mlp_in: Vec<Linear<S>>,
    /// I -> C
    pub mlp_out: Linear<S>,
    pub mlp_post_norm: Option<Norm<S>>,
}

/// `y = x W^T + b`
pub(super) struct Linear<S: Store> {
    /// As transformers calls it: `transformer.h.0.attn.c_attn`.
    pub name: String,
    /// (out, in)
    pub shape: [usize; 2],
    pub weight: Matrix<S>,
    /// (out)
    pub bias: Option<S::Vector>,
}

/// A matrix of weights, (out, in), in the precision of the model or quantized.
pub(super) enum Matrix<S: Store> {
    Full(S::Tensor),
    Quantized(S::Quantized),
}

pub(super) struct Norm<S: Store> {
    /// As transformers calls it.
    pub name: String,
    /// C, or of queries or keys.
    pub width: usize,
    pub scale: S::Vector,         // (width)
    pub shift: Option<S::Vector>, // (width)
}

impl<S: Store> Block<S> {
    fn linears(&self) -> impl Iterator<Item = &Linear<S>> {
        self.attention_in.iter().chain([&self.attention_out]).chain(&self.mlp_in).chain([&self.mlp_out])
    }

    fn norms(&self) -> impl Iterator<Item = &Norm<S>> {
        let of_parts = [&self.attention_norm, &self.mlp_norm, &self.attention_post_norm, &self.mlp_post_norm];
        of_parts.into_iter().flatten().chain(self.qk_norms.iter().flatten().flatten())
    }
}

impl<S: Store> Decoder<S> {
    /// Loads the weights in `dtype`, the precision of the model, on the `device` of the store.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape than the config says, by name; float16 on a CPU.
    pub fn load(
        config: DecoderConfig,
        weights: &Weights,
        quantization: Option<&QuantizationConfig>,
        engine: Engine,
        device: Device,
        dtype: Precision,
        store: S,
    ) -> Result<Self> {
        if let Some(quantization) = quantization {
            quantization.check()?;
            if engine != Engine::Kernels && quantization.format().is_some_and(|format| !format.in_libraries) {
                return Err(Error::input(format!("{quantization} is computed only by this library's own kernels"))
                    .hint("use the CPU and `Engine::Kernels`"));
            }
        }
        if device.is_cpu() && dtype == Precision::Float16 {
            return Err(Error::input("a CPU cannot compute with float16 weights")
                .hint("`resolve_dtype` says which precision a device can use"));
        }
        let loader = Loader::new(&config, weights, &store, quantization, dtype, dtype.computed_on(device));
        let (parts, mut counts) = loader.load()?;
        let buffers = buffers(&config, dtype);
        let info = ModelInfo {
            architecture: config.architecture,
            engine,
            device,
            dtype,
            vocab_size: config.vocab_size,
            context_len: config.context_len,
            n_layer: config.n_layer,
            n_head: config.n_head,
            hidden_size: config.hidden_size,
            eos_token_ids: config.eos_token_ids.clone(),
            num_parameters: counts.parameters,
            parameter_bytes: counts.bytes,
            mapped_bytes: counts.mapped,
            quant_state_bytes: counts.quant_state,
            bytes_per_token: counts.bytes + counts.quant_state - counts.unread,
            buffer_bytes: buffers.iter().map(|buffer| buffer.numel * buffer.element_size).sum(),
        };
        counts.tensors.extend(buffers);
        Ok(Self { identity: ModelIdentity::new(), info, tensors: counts.tensors, config, parts, store })
    }

    /// What embeddings are multiplied by, as transformers has it: Gemma's in the precision of the model.
    pub fn embedding_scale(&self) -> f64 {
        let scale = self.config.embedding_scale;
        f64::from(match self.info.dtype {
            _ if self.config.architecture == Architecture::Granite => scale,
            Precision::Float32 => scale,
            Precision::BFloat16 => bf16::from_f32(scale).to_f32(),
            Precision::Float16 => f16::from_f32(scale).to_f32(),
        })
    }

    /// Writes the weights under the names that transformers has for them, and returns these with the shapes.
    ///
    /// # Errors
    /// A file that cannot be written; what the engine reports.
    pub fn save(&self, file: &Path) -> Result<Vec<(String, Vec<usize>)>> {
        write(file, self.state_dict()?)
    }

    /// [`check_cache_room`] for all layers.
    ///
    /// # Errors
    /// As there.
    pub fn check_cache_room(&self, batch: usize, capacity: usize, format: CacheFormat) -> Result<()> {
        let needed = self.config.cache_bytes(format, batch, capacity);
        check_cache_room(self.info.device, needed, batch, capacity)
    }
}

/// The buffers that transformers' modules register.
fn buffers(config: &DecoderConfig, dtype: Precision) -> Vec<TensorInfo> {
    let name = |name: &str| format!("{}{name}", Names::of(config.architecture).prefix);
    let buffer = |name, shape: &[usize], size| TensorInfo::plain(name, TensorKind::Buffer, shape, size);
    match (config.architecture, &config.positions) {
        // A causal mask of booleans and one number, for each block.
        (Architecture::Gpt2, _) => (0..config.n_layer)
            .flat_map(|layer| {
                let mask = [1, 1, config.context_len, config.context_len];
                [
                    buffer(name(&format!("h.{layer}.attn.bias")), &mask, size_of::<bool>()),
                    buffer(name(&format!("h.{layer}.attn.masked_bias")), &[], dtype.size_in_bytes()),
                ]
            })
            .collect(),
        (_, Positions::Rotary { rotations }) => {
            let names = ["rotary_emb.inv_freq", "rotary_emb_local.inv_freq"];
            let angles = names
                .into_iter()
                .zip(rotations)
                .map(|(part, rotation)| buffer(name(part), &[rotation.frequencies.len()], size_of::<f32>()));
            let scale = (config.architecture == Architecture::Gemma3Text)
                .then(|| buffer(name("embed_tokens.embed_scale"), &[], size_of::<f32>()));
            let layers = if config.architecture == Architecture::StableLm { config.n_layer } else { 0 };
            let of_layers = (0..layers).map(|layer| {
                let part = format!("layers.{layer}.self_attn.rotary_emb.inv_freq");
                buffer(name(&part), &[rotations[0].frequencies.len()], size_of::<f32>())
            });
            angles.chain(scale).chain(of_layers).collect()
        }
        (_, Positions::Learned) => Vec::new(),
    }
}

impl<S: Store> fmt::Debug for Decoder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("info", &self.info).finish_non_exhaustive()
    }
}
