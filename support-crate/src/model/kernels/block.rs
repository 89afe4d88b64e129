//! Keys and values of some tokens, copied from one cache into another.

use std::ops::Range;

use half::f16;
use quantlab_kernels::{Run, get_key, put_key, thread_scope};

use super::cache::{KernelCache, Layer};
use crate::error::{Error, Result};
use crate::model::CacheFormat;

/// Keys and values of each layer, (J, tokens, D) each. Those of a cache in codes are float16: the same numbers become
/// the same codes.
#[derive(Debug)]
pub struct KernelBlock {
    layers: Vec<BlockLayer>,
    format: CacheFormat,
}

#[derive(Debug)]
enum BlockLayer {
    Float32([Vec<f32>; 2]),
    Float16([Vec<f16>; 2]),
}

impl KernelCache {
    /// Copies some tokens of the only sequence.
    ///
    /// # Errors
    /// They are only codes by now.
    pub fn copy_out(&self, tokens: Range<usize>) -> Result<KernelBlock> {
        let sizes = (self.capacity, self.head_dim);
        let layer = |layer: &Layer| match layer {
            Layer::Float32(kv) => Ok(BlockLayer::Float32(copied(kv, sizes, &tokens))),
            Layer::Float16(kv) => Ok(BlockLayer::Float16(copied(kv, sizes, &tokens))),
            Layer::Quantized(kv) => {
                let longest = self.longest[0];
                kv.recent(0, tokens.clone(), longest).map(BlockLayer::Float16).ok_or_else(|| {
                    Error::input(format!(
                        "a cache in {} that has had {longest} tokens has only codes of tokens {tokens:?}",
                        self.format
                    ))
                    .hint("copy tokens before the cache has 128 more, or keep keys and values in float16")
                })
            }
        };
        Ok(KernelBlock { layers: self.layers.iter().map(layer).collect::<Result<_>>()?, format: self.format })
    }

    /// Adds them to the only sequence, which has the tokens before them.
    ///
    /// # Errors
    /// A cache in another format.
    pub fn copy_in(&mut self, block: &KernelBlock, tokens: Range<usize>) -> Result<()> {
        if block.format != self.format {
            return Err(Error::input(format!("a block in {} cannot go into a cache in {}", block.format, self.format)));
        }
        let (heads, sizes) = (self.kv_heads, (self.capacity, self.head_dim));
        for (to, from) in self.layers.iter_mut().zip(&block.layers) {
            match (to, from) {
                (Layer::Float32(to), BlockLayer::Float32(from)) => put(from, to, sizes, &tokens),
                (Layer::Float16(to), BlockLayer::Float16(from)) => put(from, to, sizes, &tokens),
                (Layer::Quantized(kv), BlockLayer::Float16(from)) => {
                    let rows = rows_of(from, heads, tokens.len());
                    let scope = thread_scope();
                    // No more at once than stay in float16.
                    for first in (0..tokens.len()).step_by(quantlab_kernels::QuantizedKv::MOST) {
                        let count = quantlab_kernels::QuantizedKv::MOST.min(tokens.len() - first);
                        let run = Run { sequence: 0, position: tokens.start + first, row: first, count };
                        kv.append(&scope, &[run], &rows, rows.len() / tokens.len(), 0);
                    }
                }
                _ => unreachable!("of one format"),
            }
        }
        if let Some(longest) = self.longest.first_mut() {
            *longest = if tokens.start == 0 { tokens.end } else { tokens.end.max(*longest) };
        }
        Ok(())
    }
}

/// Some tokens of keys and values, (J, capacity, D), as (J, tokens, D).
fn copied<T: Copy>([keys, values]: &[Vec<T>; 2], (capacity, d): (usize, usize), tokens: &Range<usize>) -> [Vec<T>; 2] {
    let of_head = |keys| tokens.clone().flat_map(move |token| get_key(keys, capacity, token, d));
    [
        keys.chunks_exact(capacity * d).flat_map(of_head).collect(),
        values.chunks_exact(capacity * d).flat_map(|head| &head[tokens.start * d..tokens.end * d]).copied().collect(),
    ]
}

/// Puts (J, tokens, D) into (J, capacity, D).
fn put<T: Copy>(
    from: &[Vec<T>; 2],
    [keys, values]: &mut [Vec<T>; 2],
    (capacity, d): (usize, usize),
    tokens: &Range<usize>,
) {
    let [of_keys, of_values] = from.each_ref().map(|from| from.chunks_exact(tokens.len() * d));
    for (from, to) in of_keys.zip(keys.chunks_exact_mut(capacity * d)) {
        tokens.clone().zip(from.chunks_exact(d)).for_each(|(token, key)| put_key(to, capacity, token, key));
    }
    for (from, to) in of_values.zip(values.chunks_exact_mut(capacity * d)) {
        to[tokens.start * d..tokens.end * d].copy_from_slice(from);
    }
}

/// Keys and values (J, tokens, D) as rows of a token each: its keys, then its values.
fn rows_of(kv: &[Vec<f16>; 2], heads: usize, tokens: usize) -> Vec<f32> {
    let d = kv[0].len() / (heads * tokens);
    let of_token = |token: usize| {
        kv.iter().flat_map(move |numbers| {
            (0..heads).flat_map(move |head| &numbers[(head * tokens + token) * d..(head * tokens + token + 1) * d])
        })
    };
    (0..tokens).flat_map(of_token).map(|number| number.to_f32()).collect()
}
