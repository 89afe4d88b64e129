//! Keys and values in main memory.

use std::alloc::{Layout, alloc_zeroed};

use crate::error::Result;
use crate::model::cache::no_cache_room;
use crate::model::decoder::cache_bytes;
use crate::model::{DecoderConfig, Step};

/// For each layer keys and values, (B, J, capacity, D) each: what attention of one head reads is one piece.
#[derive(Debug)]
pub struct KernelCache {
    layers: Vec<(Vec<f32>, Vec<f32>)>,
    /// J
    kv_heads: usize,
    capacity: usize,
    head_dim: usize,
    /// Whether all layers use the memory of the first: what a step without a cache needs.
    shared: bool,
}

impl KernelCache {
    /// Room for `batch` sequences of `capacity` tokens.
    ///
    /// # Errors
    /// The system does not give the memory.
    pub fn new(config: &DecoderConfig, batch: usize, capacity: usize) -> Result<Self> {
        Self::with_layers(config, batch, capacity, false)
    }

    /// Room for what one layer needs at a time.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_one_step(config: &DecoderConfig, batch: usize, capacity: usize) -> Result<Self> {
        Self::with_layers(config, batch, capacity, true)
    }

    fn with_layers(config: &DecoderConfig, batch: usize, capacity: usize, shared: bool) -> Result<Self> {
        let sizes = [config.n_kv_head, capacity, config.head_dim];
        let len = sizes.iter().try_fold(batch, |len, &size| len.checked_mul(size));
        let count = if shared { 1 } else { config.n_layer };
        let layers = (0..count).map(|_| Some((zeros(len?)?, zeros(len?)?))).collect::<Option<_>>();
        let layers =
            layers.ok_or_else(|| no_cache_room(cache_bytes(config, count, batch, capacity), batch, capacity, None))?;
        Ok(Self { layers, kv_heads: config.n_kv_head, capacity, head_dim: config.head_dim, shared })
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keys and values of a layer.
    pub fn layer(&self, layer: usize) -> (&[f32], &[f32]) {
        let (k, v) = &self.layers[if self.shared { 0 } else { layer }];
        (k, v)
    }

    /// Takes the keys, which lie at `start` of each row of `qkv` (M, width), and the values after them.
    pub fn append(&mut self, layer: usize, step: &Step<'_>, qkv: &[f32], width: usize, start: usize) {
        let (k, v) = &mut self.layers[if self.shared { 0 } else { layer }];
        let (d, wide) = (self.head_dim, self.kv_heads * self.head_dim);
        for (row, values) in qkv.chunks_exact(width).enumerate() {
            let (sequence, position) = (row / step.seq_len, step.past_len + row % step.seq_len);
            let keys = values[start..start + wide].chunks_exact(d);
            let values = values[start + wide..start + 2 * wide].chunks_exact(d);
            for (head, (key, value)) in keys.zip(values).enumerate() {
                let to = ((sequence * self.kv_heads + head) * self.capacity + position) * d;
                k[to..to + d].copy_from_slice(key);
                v[to..to + d].copy_from_slice(value);
            }
        }
    }

    /// Makes sequence `rows[i]` sequence `i`; `rows` ascends.
    pub fn retain(&mut self, rows: &[usize], past_len: usize) {
        let (head, used) = (self.capacity * self.head_dim, past_len * self.head_dim);
        for (to, &from) in rows.iter().enumerate().filter(|(to, from)| to != *from) {
            for (k, v) in &mut self.layers {
                for h in 0..self.kv_heads {
                    let (from, to) = ((from * self.kv_heads + h) * head, (to * self.kv_heads + h) * head);
                    k.copy_within(from..from + used, to);
                    v.copy_within(from..from + used, to);
                }
            }
        }
    }
}

/// Zeros that take no memory until they are touched, or `None` where there is none; `vec!` would end the process.
fn zeros(len: usize) -> Option<Vec<f32>> {
    let layout = Layout::array::<f32>(len).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout has a size.
    let start = unsafe { alloc_zeroed(layout) }.cast::<f32>();
    // SAFETY: the allocator of `Vec` has given these bytes just now, for so many numbers; zero bytes are the number 0.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, len, len) })
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn zeros_are_zero_and_too_many_are_none() {
        assert_eq!(zeros(0), Some(Vec::new()));
        assert_eq!(zeros(3), Some(vec![0.0; 3]));
        // The first is no size, the second one that no machine has.
        assert_eq!(zeros(usize::MAX), None);
        // Seen from outside, or an optimizer may leave the allocation out, and what it says with it.
        assert_eq!(black_box(zeros(isize::MAX as usize / size_of::<f32>())), None);
    }
}
