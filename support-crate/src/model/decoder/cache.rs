//! Keys and values in main memory.

use crate::model::{DecoderConfig, Step};

/// For each layer keys and values, (B, J, capacity, D) each: what attention of one head reads is one piece.
#[derive(Debug)]
pub(in crate::model) struct CpuCache {
    layers: Vec<(Vec<f32>, Vec<f32>)>,
    /// J
    kv_heads: usize,
    capacity: usize,
    head_dim: usize,
    /// Whether all layers use the memory of the first: what a step without a cache needs.
    shared: bool,
}

impl CpuCache {
    /// Room for `batch` sequences of `capacity` tokens.
    pub fn new(config: &DecoderConfig, batch: usize, capacity: usize) -> Self {
        Self::with_layers(config, batch, capacity, false)
    }

    /// Room for what one layer needs at a time.
    pub fn for_one_step(config: &DecoderConfig, batch: usize, capacity: usize) -> Self {
        Self::with_layers(config, batch, capacity, true)
    }

    fn with_layers(config: &DecoderConfig, batch: usize, capacity: usize, shared: bool) -> Self {
        let len = batch * config.n_kv_head * capacity * config.head_dim;
        let count = if shared { 1 } else { config.n_layer };
        let layers = (0..count).map(|_| (vec![0.0; len], vec![0.0; len])).collect();
        Self { layers, kv_heads: config.n_kv_head, capacity, head_dim: config.head_dim, shared }
    }

    /// Whether this was made for a model of these sizes.
    pub fn fits(&self, config: &DecoderConfig) -> bool {
        let layers = if self.shared { 1 } else { config.n_layer };
        (self.layers.len(), self.kv_heads, self.head_dim) == (layers, config.n_kv_head, config.head_dim)
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
