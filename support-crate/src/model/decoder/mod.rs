//! Decoder-only transformers: GPT-2 and the Llama family.
//!
//! What is loaded is the same for every backend ([`parts`]). A step runs in one of two ways: on the CPU
//! fused, with this library's kernels over the memory of the backend's tensors ([`fused`]); elsewhere, or
//! when asked for, with the operations of the backend's library, one by one ([`library`]).

mod cache;
mod checkpoint;
mod fused;
mod library;
mod parts;
mod quantized;
mod save;
mod stored;
mod tensors;

use std::any::Any;
use std::fmt;
use std::path::Path;

use super::{
    Architecture, Backend, CausalLm, DecoderConfig, InputObserver, Logits, ModelInfo, Positions, Precision, Step,
    TensorInfo, TensorKind, Weights, available_memory, cannot_be_observed,
};
use crate::error::{Error, Result};
use crate::model::cpu::InstructionSet;
use crate::model::weights::write;
use crate::quant::QuantizationConfig;
use cache::CpuCache;
pub(super) use fused::{InMemory, numbers};
pub(super) use library::Operations;
pub(super) use parts::Memory;
use parts::{Loader, Parts};
pub(super) use quantized::{quantize_4bit, quantize_int8};
pub(super) use stored::{Int8Matrix, four_bit_weights};
pub(super) use tensors::{FourBitTensors, Int8Tensors, SHIFT};

/// A decoder with its weights in a backend's tensors.
pub(super) struct Decoder<B: Operations> {
    info: ModelInfo,
    tensors: Vec<TensorInfo>,
    config: DecoderConfig,
    parts: Parts<B::Tensor>,
    backend: B,
    fused: bool,
}

impl<B: Operations> Decoder<B>
where
    B::Tensor: InMemory,
{
    /// Loads the weights.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape than the config says, by name; float16 on a CPU.
    pub fn load(
        config: DecoderConfig,
        weights: &Weights,
        dtype: Precision,
        quantization: Option<&QuantizationConfig>,
        of: Backend,
        backend: B,
    ) -> Result<Self> {
        let device = backend.device();
        let fused = device.is_cpu() && !of.one_by_one();
        if let Some(quantization) = quantization {
            quantization.check()?;
        }
        if device.is_cpu() && dtype == Precision::Float16 {
            return Err(Error::input("float16 weights cannot be computed with on a CPU").hint("ask `resolve_dtype`"));
        }
        if fused {
            InstructionSet::chosen()?;
        }
        let compute = if device.is_cpu() { Precision::Float32 } else { dtype };
        let (parts, mut counts) =
            Loader::new(&config, weights, &backend, (dtype, compute), quantization, fused).load()?;
        let buffers = buffers(&config, dtype);
        let info = ModelInfo {
            architecture: config.architecture.name(),
            backend: of.name(),
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
            quant_state_bytes: counts.quant_state,
            bytes_per_token: counts.bytes + counts.quant_state - counts.unread,
            buffer_bytes: buffers.iter().map(|buffer| buffer.numel * buffer.element_size).sum(),
        };
        counts.tensors.extend(buffers);
        Ok(Self { info, tensors: counts.tensors, config, parts, backend, fused })
    }
}

/// The buffers that transformers' modules register.
fn buffers(config: &DecoderConfig, dtype: Precision) -> Vec<TensorInfo> {
    let name = |name: &str| format!("{}{name}", config.architecture.prefix());
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
        (_, Positions::Rotary { frequencies }) => {
            vec![buffer(name("rotary_emb.inv_freq"), &[frequencies.len()], size_of::<f32>())]
        }
        (_, Positions::Learned) => Vec::new(),
    }
}

impl<B: Operations> CausalLm for Decoder<B>
where
    B::Tensor: InMemory,
{
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn synchronize(&self) -> Result<()> {
        self.backend.synchronize()
    }

    fn compute(&self, step: &Step<'_>, storage: Option<&mut (dyn Any + Send + Sync)>) -> Result<Logits> {
        if !self.fused {
            let cache = storage.map(|storage| self.cache_of(storage)).transpose()?;
            return library::forward(&self.backend, &self.config, &self.parts, step, cache);
        }
        match storage {
            Some(storage) => fused::forward(&self.config, &self.parts, step, self.cpu_cache_of(storage)?),
            None => {
                let mut cache = CpuCache::for_one_step(&self.config, step.batch, step.seq_len)?;
                fused::forward(&self.config, &self.parts, step, &mut cache)
            }
        }
    }

    fn observe(&self, step: &Step<'_>, observer: &InputObserver<'_>) -> Result<()> {
        match self.fused {
            true => fused::observe(&self.config, &self.parts, step, observer),
            false => Err(cannot_be_observed(&self.info)),
        }
    }

    fn save_weights(&self, file: &Path) -> Result<()> {
        write(file, self.state_dict()?)
    }

    fn allocate_cache(&self, batch: usize, capacity: usize) -> Result<Box<dyn Any + Send + Sync>> {
        let c = &self.config;
        // What other devices have is for their library to say.
        let free = if self.info.device.is_cpu() { available_memory() } else { None };
        cache::check_room(c, batch, capacity, free)?;
        if self.fused {
            return Ok(Box::new(CpuCache::new(c, batch, capacity)?));
        }
        let zeros = || self.backend.zeros(&[batch, c.n_kv_head, capacity, c.head_dim]);
        let layers = (0..c.n_layer).map(|_| Ok((zeros()?, zeros()?))).collect::<Result<library::Cache<B::Tensor>>>()?;
        Ok(Box::new(layers))
    }

    fn retain_rows(&self, storage: &mut (dyn Any + Send + Sync), rows: &[usize], past_len: usize) -> Result<()> {
        if self.fused {
            self.cpu_cache_of(storage)?.retain(rows, past_len);
            return Ok(());
        }
        let rows: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        for (k, v) in self.cache_of(storage)? {
            *k = self.backend.rows(k, &rows)?;
            *v = self.backend.rows(v, &rows)?;
        }
        Ok(())
    }
}

impl<B: Operations> Decoder<B> {
    fn cpu_cache_of<'a>(&self, storage: &'a mut (dyn Any + Send + Sync)) -> Result<&'a mut CpuCache> {
        storage.downcast_mut::<CpuCache>().filter(|cache| cache.fits(&self.config)).ok_or_else(other_cache)
    }

    fn cache_of<'a>(&self, storage: &'a mut (dyn Any + Send + Sync)) -> Result<&'a mut library::Cache<B::Tensor>> {
        let cache = storage.downcast_mut::<library::Cache<B::Tensor>>();
        cache.filter(|layers| layers.len() == self.config.n_layer).ok_or_else(other_cache)
    }
}

fn other_cache() -> Error {
    Error::input("the cache was made for another model").hint("make it with this model's `new_cache`")
}

impl<B: Operations> fmt::Debug for Decoder<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("info", &self.info).finish_non_exhaustive()
    }
}
