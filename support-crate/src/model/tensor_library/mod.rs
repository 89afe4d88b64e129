//! The engines `candle` and `tch`: a decoder in the tensors of a library, computed with its operations.
//!
//! What one would write with the library. Quantized weights stay packed in tensors; a product dequantizes them.

mod candle;
mod forward;
mod gpu_buffer;
mod operations;
mod quantized;
#[cfg(test)]
mod tests;
mod torch;

use std::borrow::Cow;
use std::path::Path;

use super::decoder::{Decoder, Store};
use super::engine_model::{PlainTensor, no_cache_in};
use super::quantized::{QuantizedWeight, StateBytes};
use super::weights::{StateTensor, UnreadTensor};
use super::{CacheFormat, CacheStorage, EngineModel, Logits, ModelIdentity, ModelInfo, Precision, Step, TensorInfo};
use crate::error::Result;
pub(super) use candle::Candle;
pub(crate) use gpu_buffer::GpuBuffer;
pub(super) use operations::{FourBitTensors, Int8Tensors, Operations};
pub(super) use quantized::QuantizedTensors;
pub(super) use torch::Torch;

/// Keys and values of each layer, (B, J, capacity, D) each.
pub type TensorCache<T> = Vec<(T, T)>;

impl<L: Operations> Store for L {
    type Tensor = L::Tensor;
    type Vector = L::Tensor;
    type Quantized = QuantizedTensors<L::Tensor>;

    fn matrix(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<L::Tensor> {
        self.read(tensor, dtype)
    }

    fn vector(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<L::Tensor> {
        self.read(tensor, dtype)
    }

    fn quantized(&self, weight: Box<dyn QuantizedWeight>) -> Result<(QuantizedTensors<L::Tensor>, StateBytes)> {
        QuantizedTensors::new(self, weight)
    }

    fn matrix_values<'a>(&self, matrix: &'a L::Tensor) -> Result<Cow<'a, [f32]>> {
        self.values(matrix).map(Cow::Owned)
    }

    fn vector_values<'a>(&self, vector: &'a L::Tensor) -> Result<Cow<'a, [f32]>> {
        self.values(vector).map(Cow::Owned)
    }

    fn state_dict<'a>(&'a self, matrix: &'a QuantizedTensors<L::Tensor>, module: &str) -> Result<Vec<StateTensor<'a>>> {
        matrix.state_dict(self, module)
    }
}

impl<L: Operations> EngineModel for Decoder<L> {
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
        self.store.synchronize()
    }

    fn compute(&self, step: &Step<'_>, storage: Option<&mut CacheStorage>) -> Result<Logits> {
        let cache = storage.map(CacheStorage::get_mut).transpose()?;
        forward::forward(self, step, cache)
    }

    fn save_weights(&self, file: &Path) -> Result<Vec<(String, Vec<usize>)>> {
        self.save(file)
    }

    fn plain_tensors(&self) -> Result<Vec<PlainTensor<'_>>> {
        self.tensors_in_full()
    }

    fn allocate_cache(&self, batch: usize, capacity: usize, format: Option<CacheFormat>) -> Result<CacheStorage> {
        let computed = CacheFormat::from(self.info.dtype.computed_on(self.info.device));
        if let Some(format) = format.filter(|&format| format != computed) {
            return Err(no_cache_in(format, &self.info));
        }
        self.check_cache_room(batch, capacity, computed)?;
        let zeros = || self.store.zeros(&[batch, self.config.n_kv_head, capacity, self.config.head_dim]);
        let layers: Result<TensorCache<L::Tensor>> =
            (0..self.config.n_layer).map(|_| Ok((zeros()?, zeros()?))).collect();
        let bytes = self.config.cache_bytes(computed, batch, capacity) as usize;
        Ok(CacheStorage::new(layers?).of_bytes(bytes))
    }

    fn retain_rows(&self, storage: &mut CacheStorage, rows: &[usize], _past_len: usize) -> Result<()> {
        let rows: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        for (k, v) in storage.get_mut::<TensorCache<L::Tensor>>()? {
            *k = self.store.rows(k, &rows)?;
            *v = self.store.rows(v, &rows)?;
        }
        Ok(())
    }
}
