//! Keys and values in main memory.

use std::alloc::{Layout, alloc_zeroed};

use half::f16;
use quantlab_kernels::{KeysValues, to_f16};

use crate::buffer::Plain;
use crate::error::Result;
use crate::model::cache::no_cache_room;
use crate::model::decoder::cache_bytes;
use crate::model::{DecoderConfig, Precision, Step};

/// Keys and values of each layer, (B, J, capacity, D) each: what the attention of one head reads is contiguous.
#[derive(Debug)]
pub struct KernelCache {
    layers: Vec<Layer>,
    /// J
    kv_heads: usize,
    capacity: usize,
    head_dim: usize,
    /// Whether all layers use the memory of the first: what a step without a cache needs.
    shared: bool,
}

/// Keys and values of a layer, in the format of the cache.
#[derive(Debug)]
enum Layer {
    Float32([Vec<f32>; 2]),
    Float16([Vec<f16>; 2]),
}

impl KernelCache {
    /// Room for `batch` sequences of `capacity` tokens, in float16 or else in float32.
    ///
    /// # Errors
    /// The system does not give the memory.
    pub fn new(config: &DecoderConfig, batch: usize, capacity: usize, dtype: Precision) -> Result<Self> {
        Self::with_layers(config, batch, capacity, dtype, false)
    }

    /// Room for what one layer needs at a time, in float32.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_one_step(config: &DecoderConfig, batch: usize, capacity: usize) -> Result<Self> {
        Self::with_layers(config, batch, capacity, Precision::Float32, true)
    }

    fn with_layers(
        config: &DecoderConfig,
        batch: usize,
        capacity: usize,
        dtype: Precision,
        shared: bool,
    ) -> Result<Self> {
        let sizes = [config.n_kv_head, capacity, config.head_dim];
        let len = sizes.iter().try_fold(batch, |len, &size| len.checked_mul(size));
        let count = if shared { 1 } else { config.n_layer };
        let layers = (0..count).map(|_| Layer::new(len?, dtype)).collect::<Option<_>>();
        let needed = || cache_bytes(config, count, batch, capacity, dtype);
        let layers = layers.ok_or_else(|| no_cache_room(needed(), batch, capacity, None))?;
        Ok(Self { layers, kv_heads: config.n_kv_head, capacity, head_dim: config.head_dim, shared })
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keys and values of a layer.
    pub fn layer(&self, layer: usize) -> KeysValues<'_> {
        match &self.layers[if self.shared { 0 } else { layer }] {
            Layer::Float32([k, v]) => KeysValues::Float32 { k, v },
            Layer::Float16([k, v]) => KeysValues::Float16 { k, v },
        }
    }

    /// Takes the keys, which lie at `start` of each row of `qkv` (M, width), and the values after them.
    pub fn append(&mut self, layer: usize, step: &Step<'_>, qkv: &[f32], width: usize, start: usize) {
        let (d, kv_heads, capacity) = (self.head_dim, self.kv_heads, self.capacity);
        let layer = &mut self.layers[if self.shared { 0 } else { layer }];
        for (row, values) in qkv.chunks_exact(width).enumerate() {
            let (sequence, position) = (row / step.seq_len, step.past_len + row % step.seq_len);
            for of in 0..2 {
                let heads = values[start + of * kv_heads * d..].chunks_exact(d).take(kv_heads);
                for (head, numbers) in heads.enumerate() {
                    let to = ((sequence * kv_heads + head) * capacity + position) * d;
                    match layer {
                        Layer::Float32(kv) => kv[of][to..to + d].copy_from_slice(numbers),
                        Layer::Float16(kv) => to_f16(numbers, &mut kv[of][to..to + d]),
                    }
                }
            }
        }
    }

    /// Makes sequence `rows[i]` sequence `i`; `rows` ascends.
    pub fn retain(&mut self, rows: &[usize], past_len: usize) {
        let (head, used) = (self.capacity * self.head_dim, past_len * self.head_dim);
        for (to, &from) in rows.iter().enumerate().filter(|(to, from)| to != *from) {
            for h in 0..self.kv_heads {
                let (from, to) = ((from * self.kv_heads + h) * head, (to * self.kv_heads + h) * head);
                for layer in &mut self.layers {
                    match layer {
                        Layer::Float32(kv) => kv.iter_mut().for_each(|kv| kv.copy_within(from..from + used, to)),
                        Layer::Float16(kv) => kv.iter_mut().for_each(|kv| kv.copy_within(from..from + used, to)),
                    }
                }
            }
        }
    }
}

impl Layer {
    /// `len` zeros each for keys and values, or `None` if there is not enough memory.
    fn new(len: usize, dtype: Precision) -> Option<Self> {
        Some(match dtype {
            Precision::Float16 => Self::Float16([zeros(len)?, zeros(len)?]),
            _ => Self::Float32([zeros(len)?, zeros(len)?]),
        })
    }
}

/// Zeros that take no memory until they are touched, or `None` if there is not enough; `vec!` would end the process.
fn zeros<T: Plain>(len: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the size of the layout is not zero.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    // SAFETY: the allocator of `Vec` has just allocated these bytes, for this many numbers; any bytes are a valid
    // number, and zeros are 0.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, len, len) })
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn zeros_are_zero_and_too_many_are_none() {
        assert_eq!(zeros::<f32>(0), Some(Vec::new()));
        assert_eq!(zeros(2), Some(vec![f16::ZERO; 2]));
        assert_eq!(zeros(3), Some(vec![0.0; 3]));
        // The first is not a valid size, the second is one that no machine has.
        assert_eq!(zeros::<f32>(usize::MAX), None);
        // Without `black_box`, an optimizer may remove the allocation, and what it says with it.
        assert_eq!(black_box(zeros::<f32>(isize::MAX as usize / size_of::<f32>())), None);
    }
}
