//! Files to a model that predicts the next token.
//!
//! [`CausalLm`] is the one trait that generation and measuring know. `decoder` describes GPT-2 and the Llama
//! family, once; two folders compute what it describes: `kernels`, this library's own engine, and `library`, the
//! engines that are candle and libtorch. What a caller passes is checked here, once, for every [`Engine`].
//! `quantized` holds a layer of each quantized format, for all engines.

mod architecture;
mod batch;
mod cache;
mod calibrate;
mod config;
mod decoder;
mod device;
mod engine;
mod families;
mod hub;
mod kernels;
mod library;
mod load;
pub(crate) mod memory;
mod precision;
mod quantized;
mod save;
mod tensor_info;
#[cfg(test)]
mod test_numbers;
mod threads;
mod tokenizer;
mod weights;

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::interrupt;

pub use crate::precision::Precision;
pub use architecture::Architecture;
pub use batch::{LogitPositions, Logits, TokenBatch};
pub use cache::{CacheStorage, KvCache, ModelIdentity};
pub use calibrate::calibrate;
pub use config::{Activation, Biases, DecoderConfig, NormKind, Positions};
pub use device::{Device, best_device};
pub use engine::Engine;
pub use hub::{Hub, ModelHub};
pub use load::{LoadOptions, Loaded, SkippedCandidate, load_model, load_model_and_tokenizer};
pub use memory::available_memory;
pub use precision::{ResolvedDtype, resolve_dtype};
pub use quantlab_kernels::threads;
pub use tensor_info::{TensorInfo, TensorKind};
pub use threads::set_threads;
pub use tokenizer::{Tokenizer, TokenizerUse};
pub use weights::Weights;

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
    /// The tokens that end a text, each on its own; none if the model knows no end.
    pub eos_token_ids: Vec<u32>,
    /// Weights, with shared ones counted once.
    pub num_parameters: usize,
    /// Memory that the weights take, in bytes.
    pub parameter_bytes: usize,
    /// How many of these bytes are read where the model's file is mapped. The system keeps them in its own cache of
    /// files, may drop them, and reads them from the disk again when they are needed.
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

/// A model that predicts the next token of each sequence in a batch.
///
/// Callers use [`new_cache`](Self::new_cache) and [`forward`](Self::forward), which check their arguments; engines
/// implement the rest. A model in a test has a cache of [`CacheStorage::nothing`].
pub trait CausalLm: fmt::Debug + Send + Sync {
    /// What there is to know about the model.
    fn info(&self) -> &ModelInfo;

    /// Distinguishes its caches from those of other models. Every model whose caches hold something has its own
    /// identity.
    fn identity(&self) -> ModelIdentity {
        ModelIdentity::default()
    }

    /// Its parameters and buffers, one by one; none of a model that has no weights. Those that are not tied to
    /// another take [`parameter_bytes`](ModelInfo::parameter_bytes) and
    /// [`buffer_bytes`](ModelInfo::buffer_bytes).
    fn tensors(&self) -> &[TensorInfo] {
        &[]
    }

    /// Whether sequences of different lengths can go together, the shorter ones filled up with padding. A model that
    /// cannot takes them one by one, or those of equal length together.
    fn padded_batches(&self) -> bool {
        true
    }

    /// Waits until everything that was started has been computed. Timers call it on both sides.
    ///
    /// # Errors
    /// The device reports a failure of what it was computing.
    fn synchronize(&self) -> Result<()>;

    /// Computes logits for a step that has been checked. Keys and values of the step's tokens go into
    /// `storage` at `step.past_len`, if there is one.
    ///
    /// # Errors
    /// What the engine reports.
    fn compute(&self, step: &Step<'_>, storage: Option<&mut CacheStorage>) -> Result<Logits>;

    /// Shows `observer` what goes into each linear layer, the head too, in a step that has been checked and
    /// has no past. There are no logits.
    ///
    /// # Errors
    /// What `observer` reports, at once; a model whose layers cannot be seen.
    fn observe(&self, _step: &Step<'_>, _observer: &InputObserver<'_>) -> Result<()> {
        Err(cannot_be_observed(self.info()))
    }

    /// Memory for the keys and values, in `dtype`, of `batch` sequences of at most `capacity` tokens; with `None`, in
    /// the format that the model computes in.
    ///
    /// # Errors
    /// What the engine reports; a format in which it cannot keep keys and values ([`no_cache_in`]).
    fn allocate_cache(&self, batch: usize, capacity: usize, dtype: Option<Precision>) -> Result<CacheStorage>;

    /// Makes sequence `rows[i]` of a cache its sequence `i`, of `past_len` tokens each; the others are
    /// forgotten. `rows` ascends, is not empty, and lies within the cache.
    ///
    /// # Errors
    /// What the engine reports.
    fn retain_rows(&self, storage: &mut CacheStorage, rows: &[usize], past_len: usize) -> Result<()>;

    /// Makes a cache ready to go on after the first `len` of its tokens.
    ///
    /// # Errors
    /// What the engine reports; a model that cannot.
    fn truncate_storage(&self, _storage: &mut CacheStorage, _len: usize) -> Result<()> {
        Ok(())
    }

    /// Writes the weights as a safetensors file, under the names that transformers has for them; only
    /// [`save_pretrained`](Loaded::save_pretrained) makes a checkpoint of it.
    ///
    /// # Errors
    /// A file that cannot be written, or a model that has no weights to save.
    fn save_weights(&self, file: &Path) -> Result<()> {
        Err(Error::input(format!("a model of {} has nothing to write to {}", self.info().engine, file.display())))
    }

    /// An empty cache for `batch` sequences of at most `capacity` tokens, prompt and new tokens.
    ///
    /// # Errors
    /// A batch or a capacity of zero, or a capacity beyond the model's context.
    fn new_cache(&self, batch: usize, capacity: usize) -> Result<KvCache> {
        self.new_cache_in(None, batch, capacity)
    }

    /// As [`new_cache`](Self::new_cache), with keys and values in a format of your choice: in float16, a step reads
    /// half as many bytes of them. Logits then differ from those of a step without a cache. With `None`, the format is
    /// the one that the model computes in.
    ///
    /// # Errors
    /// Those of [`new_cache`](Self::new_cache); a format in which the engine cannot keep keys and values.
    fn new_cache_in(&self, dtype: Option<Precision>, batch: usize, capacity: usize) -> Result<KvCache> {
        let context_len = self.info().context_len;
        if batch == 0 || capacity == 0 {
            return Err(Error::input(format!("a cache for {batch} sequences of {capacity} tokens holds nothing")));
        }
        if capacity > context_len {
            return Err(Error::input(format!(
                "a cache of {capacity} tokens is longer than the model's context of {context_len}"
            )));
        }
        Ok(KvCache::new(self.identity(), batch, capacity, self.allocate_cache(batch, capacity, dtype)?))
    }

    /// Keeps the sequences `rows` of a cache, in this order, and forgets the others: a sequence that is
    /// finished then costs nothing more. The next step has `rows.len()` sequences.
    ///
    /// # Errors
    /// No rows, rows that do not ascend or that the cache does not have, or a cache of another model.
    fn retain(&self, cache: &mut KvCache, rows: &[usize]) -> Result<()> {
        cache.check_model(self.identity())?;
        let ascending = rows.windows(2).all(|pair| pair[0] < pair[1]);
        if rows.is_empty() || !ascending || rows.iter().any(|&row| row >= cache.batch()) {
            return Err(Error::input(format!(
                "rows {rows:?} of a cache of {} sequences; they must exist and ascend",
                cache.batch()
            )));
        }
        let past_len = cache.past_len();
        self.retain_rows(cache.storage_mut(), rows, past_len)?;
        cache.keep_rows(rows);
        Ok(())
    }

    /// Forgets all but the first `len` tokens of each sequence, as if the others had never been there: guesses that
    /// turned out wrong.
    ///
    /// # Errors
    /// More tokens than the cache holds; a cache of another model; a model of candle-transformers, whose cache can only
    /// be emptied.
    fn truncate(&self, cache: &mut KvCache, len: usize) -> Result<()> {
        cache.check_model(self.identity())?;
        let past_len = cache.past_len();
        if len > past_len {
            return Err(Error::input(format!("a cache of {past_len} tokens cannot be cut to {len}")));
        }
        if len < past_len {
            self.truncate_storage(cache.storage_mut(), len)?;
            cache.keep_tokens(len);
        }
        Ok(())
    }

    /// The logits for the token after each position of `tokens`, or after the last ones only.
    ///
    /// With a cache, `tokens` continue what the cache holds, and are added to it; without, they are the
    /// whole sequences. A batch element's result does not depend on its neighbours or its padding, with one
    /// exception: a model in int8 with a threshold
    /// ([threshold](crate::quant::QuantizationMethod::LlmInt8)).
    ///
    /// # Errors
    /// A token id beyond the vocabulary; more tokens than the context or the cache has room for; logits of more last
    /// positions than there are; a cache made for another batch size or another model; padding, for a model without
    /// [`padded_batches`](Self::padded_batches).
    fn forward(&self, tokens: &TokenBatch, cache: Option<&mut KvCache>, positions: LogitPositions) -> Result<Logits> {
        interrupt::check()?;
        check_tokens(self.info(), tokens, cache.as_ref().map_or(0, |cache| cache.past_len()))?;
        positions.check(tokens.seq_len())?;
        if tokens.attention_mask().is_some() && !self.padded_batches() {
            let info = self.info();
            return Err(Error::input(format!("{} on {} takes no padding", info.architecture, info.engine))
                .hint("give it sequences one by one, or of equal length"));
        }
        let Some(cache) = cache else {
            let layout = cache::Layout::of(tokens);
            return self.compute(&layout.step(tokens, positions), None);
        };
        cache.check_model(self.identity())?;
        cache.check_room(tokens)?;
        let layout = cache.layout_of(tokens);
        let logits = self.compute(&layout.step(tokens, positions), Some(cache.storage_mut()))?;
        cache.advance(tokens, layout);
        Ok(logits)
    }
}

/// Looks at what goes into a linear layer: the layer's name as transformers has it (`lm_head` for the head),
/// its inputs, (tokens, in_features) row by row, and in_features.
pub type InputObserver<'a> = dyn Fn(&str, &[f32], usize) -> Result<()> + 'a;

/// The error for a format in which an engine cannot keep keys and values.
fn no_cache_in(dtype: Precision, info: &ModelInfo) -> Error {
    Error::input(format!("there are no keys and values in {dtype} in {} on {}", info.engine, info.device))
        .hint("leave it to the model, or take `Engine::Kernels` on the CPU, which has float32 and float16")
}

fn cannot_be_observed(info: &ModelInfo) -> Error {
    Error::input(format!("the inputs of layers cannot be seen in {} on {}", info.engine, info.device))
        .hint("take `Device::Cpu` and `Engine::Kernels`")
}

/// Makes sure that the model knows these tokens and has room for them.
fn check_tokens(info: &ModelInfo, tokens: &TokenBatch, past_len: usize) -> Result<()> {
    if let Some(id) = tokens.ids().iter().find(|&&id| id as usize >= info.vocab_size) {
        return Err(Error::input(format!("token id {id} is beyond the model's vocabulary of {}", info.vocab_size)));
    }
    let total = past_len + tokens.seq_len();
    if total > info.context_len {
        return Err(Error::input(format!("{total} tokens are more than the model's context of {}", info.context_len))
            .hint("use a shorter prompt or generate fewer tokens"));
    }
    Ok(())
}

/// One forward pass with everything worked out that does not depend on the engine.
#[derive(Debug)]
pub struct Step<'a> {
    /// Token ids, (B, T) row by row.
    pub ids: &'a [u32],
    /// B, the number of sequences.
    pub batch: usize,
    /// T, the number of new tokens of each.
    pub seq_len: usize,
    /// Tokens of each sequence that are in the cache already.
    pub past_len: usize,
    /// The position of each token in its sequence, padding not counted: (B, T).
    pub position_ids: &'a [u32],
    /// `true` where a key is a token and not padding: (B, past_len + T). None if all are.
    pub key_mask: Option<&'a [bool]>,
    /// The positions that logits are wanted for, counted through (B, T); `None` for all.
    pub wanted: Option<Vec<u32>>,
}
