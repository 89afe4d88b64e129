//! Models of candle-transformers: families that this library's own decoder does not know, and the others as an
//! alternative to it.
//!
//! [`table`] lists the families, `docs/families.md` what each can do. The models have no separate positions for each
//! sequence, so a batch cannot be padded, and they keep keys and values inside. A cache is therefore a model of its own
//! over the same tensors, which are reference-counted, not copied.

mod config;
mod table;
#[cfg(test)]
mod tests;
mod weights;

use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use candle_core::{DType, Device as CandleDevice, Tensor};
use candle_nn::{Linear, Module, VarBuilder};
use serde_json::{Map, Value};

use super::cache::check_cache_room;
use super::engine_model::{PlainTensor, no_cache_in, rows_of};
use super::tensor_library::Candle;
use super::weights::{StateTensor, write};
use super::{
    Architecture, CacheStorage, Device, Engine, EngineModel, LoadOptions, Logits, ModelIdentity, ModelInfo, Precision,
    Step, TensorInfo, TensorKind, Weights,
};
use crate::error::{Context, Error, Result};
use crate::source::ModelFile;
pub(super) use config::FamilyConfig;
use table::{Call, Output};
use weights::{EMBEDDING, HEAD, Held, Tensors};

/// A model of candle-transformers.
pub(super) struct FamilyModel {
    identity: ModelIdentity,
    info: ModelInfo,
    config: FamilyConfig,
    listed: Vec<TensorInfo>,
    tensors: Arc<Tensors>,
    /// For models that are called for hidden states.
    head: Linear,
    device: CandleDevice,
}

/// A model with the keys and values of some sequences in it.
pub struct FamilyCache {
    call: Call,
    capacity: usize,
    /// Sequences that the model has.
    batch: usize,
    /// Which of them are still wanted. The others are computed along with them.
    rows: Vec<u32>,
    /// How many tokens of each it has seen; `None` if it was stopped in the middle of a step.
    past_len: Option<usize>,
}

/// The config of a model that candle-transformers is to compute; none if this library's own decoder is.
///
/// On the engine that has the same tensors, candle-transformers computes the decoder's families too, unless they are
/// quantized, something is folded into them, or their config is one that it computes differently from transformers.
///
/// # Errors
/// A file that cannot be read; a family that only candle-transformers knows, on another engine or quantized, or
/// with a config that it cannot compute.
pub(super) fn choose(file: &ModelFile, dtype: Precision, options: &LoadOptions) -> Result<Option<FamilyConfig>> {
    let Ok(keys) = serde_json::from_slice::<Map<String, Value>>(&file.read_config()?) else { return Ok(None) };
    let Some(family) = keys.get("model_type").and_then(Value::as_str).and_then(table::find) else { return Ok(None) };
    let architecture = family.architecture;
    let exact = dtype == Precision::Float32 || family.exact_positions_in_half;
    if Architecture::DECODERS.contains(&architecture) {
        let is_changed = options.quantization.is_some() || options.fold.is_some();
        let is_candidate = exact && options.engine == Some(Engine::Candle) && !is_changed;
        let config = if is_candidate { FamilyConfig::new(family, keys).ok() } else { None };
        return Ok(config.filter(FamilyConfig::has_whole_context));
    }
    if let Some(engine @ (Engine::Kernels | Engine::Tch)) = options.engine {
        return Err(Error::input(format!("models of type {architecture} cannot be computed with {engine}"))
            .hint("leave out `engine`, or use `Engine::Candle`, which runs candle-transformers' models"));
    }
    if options.quantization.is_some() {
        return Err(Error::input(format!(
            "models of type {architecture} cannot be quantized: candle-transformers computes them"
        ))
        .hint(format!(
            "load it without `quantization`, or use one of type {}",
            Architecture::list(&Architecture::DECODERS)
        )));
    }
    if options.fold.is_some() {
        return Err(Error::input(format!(
            "nothing can be folded into models of type {architecture}: candle-transformers computes them"
        ))
        .hint("load it without `fold`, or use a model of the own decoder, such as llama or qwen3"));
    }
    if !exact {
        return Err(Error::input(format!(
            "models of type {architecture} cannot be computed in {dtype}: their positions would be rounded"
        ))
        .hint("use float32; candle-transformers computes the angles of this family in the weights' format"));
    }
    FamilyConfig::new(family, keys).context(|| file.to_string()).map(Some)
}

impl FamilyModel {
    /// Loads the weights.
    ///
    /// # Errors
    /// A config that no model can be built from; a tensor that is missing or has another shape than the config
    /// says, by name; a device that is not there.
    pub fn load(config: FamilyConfig, weights: &Weights, dtype: Precision, device: Device) -> Result<Self> {
        let candle = Candle::new(device, dtype)?;
        let needed = weights::needed(&config)?;
        let tensors = weights::read(&config, &needed, weights, dtype, &candle)?;
        let head = tensors.get(if config.tie_word_embeddings { EMBEDDING } else { HEAD }).cloned();
        let head = head.ok_or_else(|| Error::system(format!("the model has no `{HEAD}`")))?;
        let mut listed = list(&config, &needed, dtype);
        let num_parameters = needed.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum();
        let parameter_bytes = num_parameters * dtype.size_in_bytes();
        let embedding = config.vocab_size * config.hidden_size * dtype.size_in_bytes();
        let buffers = buffers(&config);
        let info = ModelInfo {
            architecture: config.family.architecture,
            engine: Engine::Candle,
            device,
            dtype,
            vocab_size: config.vocab_size,
            context_len: config.context_len,
            n_layer: config.n_layer,
            n_head: config.n_head,
            hidden_size: config.hidden_size,
            eos_token_ids: config.eos_token_ids.clone(),
            num_parameters,
            parameter_bytes,
            quant_state_bytes: 0,
            mapped_bytes: 0,
            // A tied head reads the whole embedding.
            bytes_per_token: parameter_bytes - if config.tie_word_embeddings { 0 } else { embedding },
            buffer_bytes: buffers.iter().map(|buffer| buffer.numel * buffer.element_size).sum(),
        };
        listed.extend(buffers);
        Ok(Self {
            identity: ModelIdentity::new(),
            info,
            config,
            listed,
            tensors: Arc::new(tensors),
            head: Linear::new(head, None),
            device: Candle::device(device)?,
        })
    }

    fn new_model(&self, batch: usize, capacity: usize) -> Result<FamilyCache> {
        let held = Held { tensors: &self.tensors, tied: self.config.tie_word_embeddings };
        let vb = VarBuilder::from_backend(Box::new(held), self.info.dtype.to_candle(), self.device.clone());
        Ok(FamilyCache {
            call: self.config.build(capacity, vb)?,
            capacity,
            batch,
            rows: (0..batch as u32).collect(),
            past_len: Some(0),
        })
    }

    /// Logits after each of `len` tokens of a step from `start` on, or after the last of them: (rows, 1 or `len`, V).
    fn piece(
        &self,
        step: &Step<'_>,
        cache: &mut FamilyCache,
        (start, len): (usize, usize),
        all: bool,
    ) -> Result<Tensor> {
        let mut ids = vec![0; cache.batch * len];
        for (ids_of_row, &row) in step.ids.chunks_exact(step.seq_len).zip(&cache.rows) {
            let at = row as usize * len;
            ids[at..at + len].copy_from_slice(&ids_of_row[start..start + len]);
        }
        let ids = Tensor::from_vec(ids, (cache.batch, len), &self.device)?;
        let mut result = (cache.call)(&ids, step.past_len + start)?;
        if cache.rows.len() < cache.batch {
            result = result.index_select(&Tensor::new(cache.rows.as_slice(), &self.device)?, 0)?;
        }
        let logits = match self.config.family.output {
            Output::LastLogits => result.reshape((cache.rows.len(), 1, self.config.vocab_size))?,
            Output::HiddenStates if all => self.head.forward(&result)?,
            Output::HiddenStates => self.head.forward(&result.narrow(1, len - 1, 1)?.contiguous()?)?,
        };
        Ok(logits.to_dtype(DType::F32)?)
    }

    /// The pieces of a step: where each starts, and its length.
    fn pieces(&self, step: &Step<'_>, all: bool) -> Vec<(usize, usize)> {
        let at_once = match self.config.family.output {
            Output::LastLogits if all => 1,
            _ if step.past_len > 0 => 1,
            _ => self.config.prefill.min(step.seq_len),
        };
        std::iter::once((0, at_once)).chain((at_once..step.seq_len).map(|start| (start, 1))).collect()
    }
}

/// The weights, as they are listed.
fn list(config: &FamilyConfig, needed: &[(String, Vec<usize>)], dtype: Precision) -> Vec<TensorInfo> {
    let parameter =
        |name: &str, shape: &[usize]| TensorInfo::plain(name, TensorKind::Parameter, shape, dtype.size_in_bytes());
    let mut listed: Vec<TensorInfo> = needed.iter().map(|(name, shape)| parameter(name, shape)).collect();
    if config.tie_word_embeddings {
        let tied = parameter(HEAD, &[config.vocab_size, config.hidden_size]);
        listed.push(TensorInfo { tied_to: Some(EMBEDDING.to_owned()), ..tied });
    }
    listed
}

/// The buffers that transformers' modules register.
fn buffers(config: &FamilyConfig) -> Vec<TensorInfo> {
    let buffer = |name: &str, shape: &[usize]| TensorInfo::plain(name, TensorKind::Buffer, shape, size_of::<f32>());
    let angles = |name: &str| buffer(name, &[config.rotary_dim / 2]);
    let mut buffers = vec![angles("model.rotary_emb.inv_freq")];
    match config.family.architecture {
        Architecture::Gemma3Text => {
            buffers.extend([angles("model.rotary_emb_local.inv_freq"), buffer("model.embed_tokens.embed_scale", &[])]);
        }
        Architecture::StableLm => {
            let name = |layer| format!("model.layers.{layer}.self_attn.rotary_emb.inv_freq");
            buffers.extend((0..config.n_layer).map(|layer| angles(&name(layer))));
        }
        _ => {}
    }
    buffers
}

impl EngineModel for FamilyModel {
    fn identity(&self) -> ModelIdentity {
        self.identity
    }

    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.listed
    }

    fn padded_batches(&self) -> bool {
        false
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.device.synchronize()?)
    }

    fn compute(&self, step: &Step<'_>, storage: Option<&mut CacheStorage>) -> Result<Logits> {
        let mut own;
        let cache = match storage {
            Some(storage) => storage.get_mut()?,
            None => {
                own = self.new_model(step.batch, step.seq_len)?;
                &mut own
            }
        };
        if step.past_len == 0 && cache.past_len != Some(0) {
            *cache = self.new_model(step.batch, cache.capacity)?;
        }
        if cache.past_len != Some(step.past_len) || cache.rows.len() != step.batch {
            return Err(Error::input("an earlier step failed").hint("`reset` the cache and start again"));
        }
        cache.past_len = None;
        let all = step.wanted.as_ref().is_none_or(|wanted| wanted.len() != step.batch);
        let mut logits = Vec::new();
        for piece in self.pieces(step, all) {
            let of_piece = self.piece(step, cache, piece, all)?;
            if !all {
                logits.clear();
            }
            logits.push(of_piece);
        }
        cache.past_len = Some(step.past_len + step.seq_len);
        let mut logits = Tensor::cat(&logits, 1)?;
        if let Some(wanted) = step.wanted.as_ref().filter(|_| all) {
            logits = logits.flatten(0, 1)?.index_select(&Tensor::new(wanted.as_slice(), &self.device)?, 0)?;
        }
        Logits::new(logits.flatten_all()?.to_vec1()?, step.batch, self.config.vocab_size)
    }

    fn save_weights(&self, file: &Path) -> Result<()> {
        if self.tensors.keys().any(|name| (self.config.family.factor)(&self.config, name) != 1.0) {
            return Err(Error::input(format!("a {} model cannot be saved", self.info.architecture))
                .hint("its multipliers were folded into its weights; copy the checkpoint that it was loaded from"));
        }
        let tensors = self.tensors.iter().map(|(name, tensor)| StateTensor {
            name: name.clone(),
            dtype: self.info.dtype.to_safetensors(),
            shape: tensor.dims().to_vec(),
            bytes: Box::new(|| {
                let mut bytes = Vec::new();
                tensor.write_bytes(&mut bytes)?;
                Ok(bytes.into())
            }),
        });
        write(file, tensors.collect())
    }

    fn plain_tensors(&self) -> Result<Vec<PlainTensor<'_>>> {
        let mut tensors: Vec<_> = self.tensors.iter().collect();
        tensors.sort_by_key(|(name, _)| *name);
        let plain = |(name, tensor): (&String, &'_ Tensor)| {
            let (shape, tensor) = (tensor.dims().to_vec(), tensor.clone());
            let columns = shape.get(1).copied().unwrap_or(1);
            let open = Box::new(move || {
                let numbers = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
                Ok(rows_of(Cow::Owned(numbers), columns))
            });
            PlainTensor { name: name.clone(), shape, open }
        };
        Ok(tensors.into_iter().map(plain).collect())
    }

    fn allocate_cache(&self, batch: usize, capacity: usize, dtype: Option<Precision>) -> Result<CacheStorage> {
        if let Some(dtype) = dtype.filter(|&dtype| dtype != self.info.dtype) {
            return Err(no_cache_in(dtype, &self.info));
        }
        let c = &self.config;
        let sizes = [2, c.n_layer, batch, c.n_kv_head, capacity, c.head_dim, self.info.dtype.size_in_bytes()];
        let needed = sizes.iter().map(|&size| size as f64).product();
        check_cache_room(self.info.device, needed, batch, capacity)?;
        self.new_model(batch, capacity).map(CacheStorage::new)
    }

    fn retain_rows(&self, storage: &mut CacheStorage, rows: &[usize], _past_len: usize) -> Result<()> {
        let cache: &mut FamilyCache = storage.get_mut()?;
        cache.rows = rows.iter().map(|&row| cache.rows[row]).collect();
        Ok(())
    }

    fn truncate_storage(&self, _: &mut CacheStorage, len: usize) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let family = self.info.architecture;
        Err(Error::input(format!(
            "the cache of a {family} cannot be cut to {len} tokens: it belongs to candle-transformers"
        ))
        .hint("`reset` it and start again"))
    }
}

impl fmt::Debug for FamilyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FamilyCache").field("batch", &self.batch).field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl fmt::Debug for FamilyModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FamilyModel").field("info", &self.info).finish_non_exhaustive()
    }
}
