//! Files to a model that predicts the next token.
//!
//! [`CausalLm`] is the one trait that generation and measuring know: it checks what a caller passes, once for every
//! [`Engine`], whose models implement `EngineModel`. `decoder` describes GPT-2 and the Llama family, once; two folders
//! compute what it describes: `kernels`, this library's own engine, and `tensor_library`, the engines that are candle
//! and libtorch. `quantized` holds a layer of each quantized format, for all engines; `fold` changes weights before that.

mod architecture;
mod batch;
mod cache;
mod cache_format;
mod calibrate;
mod causal_lm;
mod config;
mod decoder;
mod device;
mod engine;
mod engine_model;
mod fold;
mod hub;
mod importance;
mod inspect;
mod kernels;
mod kv_block;
mod load;
pub(crate) mod memory;
mod precision;
mod product;
mod quantized;
mod save;
mod save_gguf;
mod tensor_info;
mod tensor_library;
#[cfg(test)]
mod test_numbers;
mod threads;
mod tokenizer;
mod weights;

use serde::Serialize;

use crate::error::{Error, Result};

pub use crate::precision::Precision;
pub use architecture::Architecture;
pub use batch::{LogitPositions, Logits, TokenBatch};
pub use cache::KvCache;
pub use cache_format::CacheFormat;
pub use calibrate::{calibrate, hessians};
pub use causal_lm::CausalLm;
pub(crate) use config::token_ids;
pub use config::{Activation, Biases, DecoderConfig, LayerAttention, NormKind, Positions, QkNorm, Rotation, SoftCaps};
pub use device::{Device, best_device};
pub use engine::Engine;
pub use fold::{Fold, Site, SiteNumbers, visit_sites};
pub use hub::{Hub, ModelHub};
pub use importance::ImportanceMatrix;
pub use inspect::{Operation, PlainWeight, Traced, trace};
pub use kv_block::KvBlock;
pub use load::{LoadOptions, Loaded, SkippedCandidate, load_model, load_model_and_tokenizer};
pub use memory::available_memory;
pub use precision::{ResolvedDtype, resolve_dtype};
pub use product::WeightMatrix;
pub use quantlab_kernels::threads;
pub use tensor_info::{TensorInfo, TensorKind};
pub(crate) use tensor_library::GpuBuffer;
pub use threads::set_threads;
pub use tokenizer::{Tokenizer, TokenizerUse};
pub use weights::Weights;

// For engines. Public only because the course and tests have models of their own, whose logits are known.
#[doc(hidden)]
pub use cache::{CacheStorage, ModelIdentity};
#[doc(hidden)]
pub use engine_model::{EngineModel, InputObserver, PlainTensor, RowReader, Step, Tracer};

/// What there is to know about a model without running it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelInfo {
    /// The family.
    pub architecture: Architecture,
    /// What computes.
    pub engine: Engine,
    /// Where it computes.
    pub device: Device,
    /// The format of the weights.
    pub dtype: Precision,
    /// How many different tokens there are.
    pub vocab_size: usize,
    /// The longest sequence, in tokens, prompt and new tokens together.
    pub context_len: usize,
    /// Transformer blocks.
    pub n_layer: usize,
    /// Attention heads of a block.
    pub n_head: usize,
    /// Width of the hidden state.
    pub hidden_size: usize,
    /// The tokens that end a text, each on its own, by `config.json` and `generation_config.json`; none if the model
    /// knows no end.
    pub eos_token_ids: Vec<u32>,
    /// Weights, with shared ones counted once.
    pub num_parameters: usize,
    /// Memory that the weights take, in bytes.
    pub parameter_bytes: usize,
    /// How many of these bytes, and of those of scales, are read where the model's file is mapped. The system keeps them
    /// in its own cache of files, may drop them, and reads them from the disk again when they are needed.
    pub mapped_bytes: usize,
    /// Memory that quantized weights take besides: the scales of their blocks or rows, and sums of rows. Scales
    /// that are quantized themselves are unpacked; on the CPU they are kept as they were too, to be saved.
    /// transformers' footprint leaves all of it out.
    pub quant_state_bytes: usize,
    /// Bytes of weights and scales that a step of one token reads: all except the rest of the embedding tables, from
    /// which it takes single rows, and scales that are kept only to be saved.
    pub bytes_per_token: usize,
    /// Memory that transformers' modules of the same model take for buffers (causal masks, rotary
    /// frequencies), in bytes. Nothing here needs them; they are known so that footprints compare.
    pub buffer_bytes: usize,
}

impl ModelInfo {
    /// Makes sure that the model knows these tokens.
    pub(crate) fn check_ids(&self, ids: &[u32]) -> Result<()> {
        match ids.iter().find(|&&id| id as usize >= self.vocab_size) {
            Some(id) => {
                Err(Error::input(format!("token id {id} is beyond the model's vocabulary of {}", self.vocab_size)))
            }
            None => Ok(()),
        }
    }
}
