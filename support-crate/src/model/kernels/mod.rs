//! The engine `kernels`: this library's own kernels over its own memory.
//!
//! Decoding one token reads every weight once and does little with it, so it is limited by the speed of memory; calling
//! a library's operations one by one takes as long again. Here a block is five operations, shared among threads that
//! wait for the next one.

mod array;
mod block;
mod cache;
mod forward;

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use quantlab_kernels::{Isa, Weights as KernelWeights};

use super::decoder::{Decoder, Matrix, Store};
use super::engine_model::{PlainTensor, RowReader, no_cache_in};
use super::quantized::{QuantizedWeight, StateBytes};
use super::weights::{BlockRows, StateTensor, UnreadTensor};
use super::{
    CacheFormat, CacheStorage, CausalLm, DecoderConfig, Device, Engine, EngineModel, InputObserver, Logits,
    ModelIdentity, ModelInfo, Precision, Step, TensorInfo, Tracer, Weights,
};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::quant::QuantizationConfig;
use array::Array;
pub use cache::KernelCache;
use cache::Part;

/// Main memory.
pub(super) struct Kernels {
    /// Whether matrices in the blocks of a GGUF file are restored.
    dequantize: bool,
}

/// Loads a decoder.
///
/// # Errors
/// As [`Decoder::load`]; an instruction set that was asked for and that this processor does not have.
pub(super) fn load(
    config: DecoderConfig,
    weights: &Weights,
    dtype: Precision,
    quantization: Option<&QuantizationConfig>,
    dequantize: bool,
) -> Result<Box<dyn CausalLm>> {
    // `QUANTLAB_CPU_ISA` may name one that this processor does not have.
    Isa::chosen().map_err(|unknown| Error::input(unknown.to_string()))?;
    let store = Kernels { dequantize: dequantize || quantization.is_some() };
    Ok(Box::new(Decoder::load(config, weights, quantization, Engine::Kernels, Device::Cpu, dtype, store)?))
}

impl Store for Kernels {
    type Tensor = Array;
    type Vector = Vec<f32>;
    type Quantized = Box<dyn QuantizedWeight>;

    fn matrix(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<Array> {
        Array::read(tensor, dtype)
    }

    fn vector(&self, tensor: UnreadTensor<'_>, _: Precision) -> Result<Vec<f32>> {
        tensor.read().map(Buffer::into_vec)
    }

    fn keep_blocks(&self) -> Option<fn(BlockRows) -> Array> {
        (!self.dequantize).then_some(Array::Blocks)
    }

    fn quantized(&self, weight: Box<dyn QuantizedWeight>) -> Result<(Box<dyn QuantizedWeight>, StateBytes)> {
        let state = weight.state_bytes();
        Ok((weight, state))
    }

    fn mapped_bytes(matrix: &Array) -> usize {
        matrix.mapped_bytes()
    }

    fn matrix_values<'a>(&self, matrix: &'a Array) -> Result<Cow<'a, [f32]>> {
        Ok(matrix.values())
    }

    fn matrix_rows<'a>(&self, matrix: &'a Array, columns: usize) -> Result<RowReader<'a>> {
        Ok(Box::new(move |rows, to| matrix.extend_with_rows(rows, columns, to)))
    }

    fn vector_values<'a>(&self, vector: &'a Vec<f32>) -> Result<Cow<'a, [f32]>> {
        Ok(vector.into())
    }

    fn state_dict<'a>(&'a self, matrix: &'a Box<dyn QuantizedWeight>, module: &str) -> Result<Vec<StateTensor<'a>>> {
        matrix.state_dict(module)
    }
}

impl Matrix<Kernels> {
    /// What kernels multiply.
    fn weights(&self) -> &dyn KernelWeights {
        match self {
            Self::Full(array) => array,
            Self::Quantized(weight) => &**weight,
        }
    }
}

impl EngineModel for Decoder<Kernels> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn identity(&self) -> ModelIdentity {
        self.identity
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn compute(&self, step: &Step<'_>, storage: Option<&mut CacheStorage>) -> Result<Logits> {
        match storage {
            Some(storage) => self.forward(step, storage.get_mut()?),
            None => self.forward(step, &mut KernelCache::for_one_step(&self.config, step.batch, step.seq_len)?),
        }
    }

    fn compute_together(&self, steps: &mut [(Step<'_>, &mut CacheStorage)]) -> Result<Logits> {
        let parts = steps.iter_mut().map(|(step, storage)| Ok(Part { step, cache: storage.get_mut()? }));
        self.forward_together(&mut parts.collect::<Result<Vec<_>>>()?)
    }

    fn observe(&self, step: &Step<'_>, observer: &InputObserver<'_>) -> Result<()> {
        self.forward_observed(step, observer)
    }

    fn trace(&self, step: &Step<'_>, tracer: &Tracer<'_>) -> Result<Logits> {
        self.forward_traced(step, tracer)
    }

    fn save_weights(&self, file: &Path) -> Result<Vec<(String, Vec<usize>)>> {
        self.save(file)
    }

    fn plain_tensors(&self) -> Result<Vec<PlainTensor<'_>>> {
        self.tensors_in_full()
    }

    fn allocate_cache(&self, batch: usize, capacity: usize, format: Option<CacheFormat>) -> Result<CacheStorage> {
        let format = format.unwrap_or(CacheFormat::Float32);
        if format == CacheFormat::BFloat16 {
            return Err(no_cache_in(format, &self.info));
        }
        self.check_cache_room(batch, capacity, format)?;
        let cache = KernelCache::new(&self.config, batch, capacity, format)?;
        let bytes = cache.bytes();
        Ok(CacheStorage::new(cache).of_bytes(bytes))
    }

    fn copy_out(&self, storage: &CacheStorage, tokens: Range<usize>) -> Result<CacheStorage> {
        Ok(CacheStorage::new(storage.get::<KernelCache>()?.copy_out(tokens)?))
    }

    fn copy_in(&self, block: &CacheStorage, tokens: Range<usize>, storage: &mut CacheStorage) -> Result<()> {
        storage.get_mut::<KernelCache>()?.copy_in(block.get()?, tokens)
    }

    fn check_cut(&self, storage: &mut CacheStorage, tokens: &[usize]) -> Result<()> {
        storage.get_mut::<KernelCache>()?.check_cut(tokens.iter().copied())
    }

    fn retain_rows(&self, storage: &mut CacheStorage, rows: &[usize], past_len: usize) -> Result<()> {
        storage.get_mut::<KernelCache>()?.retain(rows, past_len);
        Ok(())
    }
}
