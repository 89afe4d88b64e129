//! A step of a decoder with the operations of a tensor library, one by one.
//!
//! Letters in shapes as in [`parts`](super::parts), and: B sequences, T new tokens of each, M = B T rows,
//! S tokens seen so far (cache and new).

use super::parts::{Block, Linear, Memory, Norm, Parts};
use super::stored::Stored;
use super::tensors::{FourBitTensors, Int8Tensors};
use crate::error::{Error, Result};
use crate::model::cpu::first_seen;
use crate::model::{Activation, DecoderConfig, Device, Logits, Positions, Step};

/// Keys and values of each layer, (B, J, capacity, D) each.
pub(in crate::model) type Cache<T> = Vec<(T, T)>;

/// The operations that a transformer is made of, as a tensor library has them.
///
/// Tensors are what is computed in, but for matrices of weights.
pub(in crate::model) trait Operations: Memory<Tensor: Send + Sync + 'static> + Send + Sync {
    fn device(&self) -> Device;
    /// Waits until everything that was started has been computed.
    fn synchronize(&self) -> Result<()>;
    fn zeros(&self, shape: &[usize]) -> Result<Self::Tensor>;
    /// Numbers on the device, in what is computed in.
    fn numbers(&self, values: &[f32], shape: &[usize]) -> Result<Self::Tensor>;
    /// All numbers of a tensor, in main memory.
    fn values(&self, x: &Self::Tensor) -> Result<Vec<f32>>;
    /// Rows of the first dimension, in what is computed in.
    fn rows(&self, table: &Self::Tensor, rows: &[u32]) -> Result<Self::Tensor>;
    fn add(&self, x: &Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor>;
    fn multiply(&self, x: &Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor>;
    /// `x` (M, in), `weight` (out, in), `bias` (out) to (M, out).
    fn linear(&self, x: &Self::Tensor, weight: &Self::Tensor, bias: Option<&Self::Tensor>) -> Result<Self::Tensor>;
    /// The matrix (n, k), in what is computed in: each number times the `absmax` of its block, in float32.
    fn dequantize_4bit(&self, weight: &FourBitTensors<Self::Tensor>) -> Result<Self::Tensor>;
    /// LLM.int8(): `x` (M, in), rounded to 8 bits row by row, `bias` (out) to (M, out).
    ///
    /// The products of bytes are added up in float32, which is exact as long as sums are below 2^24: no library
    /// multiplies int8 on every device and in every shape.
    fn linear_int8(
        &self,
        x: &Self::Tensor,
        weight: &Int8Tensors<Self::Tensor>,
        bias: Option<&Self::Tensor>,
    ) -> Result<Self::Tensor>;
    fn layer_norm(
        &self,
        x: &Self::Tensor,
        scale: &Self::Tensor,
        shift: &Self::Tensor,
        epsilon: f64,
    ) -> Result<Self::Tensor>;
    fn rms_norm(&self, x: &Self::Tensor, scale: &Self::Tensor, epsilon: f64) -> Result<Self::Tensor>;
    fn activate(&self, x: &Self::Tensor, function: Activation) -> Result<Self::Tensor>;
    /// `count` heads of width D of each row of `x` (M, ...), the first of them at column `start`, as
    /// (B, count, T, D).
    fn heads(&self, x: &Self::Tensor, start: usize, shape: (usize, usize, usize, usize)) -> Result<Self::Tensor>;
    /// The pairs (i, i + D/2) of `x` (B, heads, T, D) turned; `cos` and `sin` (B, 1, T, D / 2).
    fn rotate(&self, x: &Self::Tensor, cos: &Self::Tensor, sin: &Self::Tensor) -> Result<Self::Tensor>;
    /// Writes `new` (B, J, T, D) into `cache` at `past_len`, and returns what the cache holds then.
    fn append(&self, cache: &mut Self::Tensor, new: &Self::Tensor, past_len: usize) -> Result<Self::Tensor>;
    /// `q` (B, H, T, D), `k` and `v` (B, J, S, D), `mask` (B or 1, 1, T, S) to be added to the scores;
    /// result (M, H D).
    fn attention(
        &self,
        q: &Self::Tensor,
        k: &Self::Tensor,
        v: &Self::Tensor,
        mask: &Self::Tensor,
        scale: f32,
    ) -> Result<Self::Tensor>;
}

/// The logits of a step; keys and values go into `cache`, if there is one.
pub(in crate::model) fn forward<B: Operations>(
    backend: &B,
    config: &DecoderConfig,
    parts: &Parts<B::Tensor>,
    step: &Step<'_>,
    mut cache: Option<&mut Cache<B::Tensor>>,
) -> Result<Logits> {
    let pass =
        Pass { backend, config, step, mask: mask(backend, config, step)?, angles: angles(backend, config, step)? };
    let mut x = backend.rows(&parts.token_embedding, step.ids)?; // (M, C)
    if let Some(positions) = &parts.position_embedding {
        x = backend.add(&x, &backend.rows(positions, step.position_ids)?)?;
    }
    for (layer, block) in parts.blocks.iter().enumerate() {
        let cache = cache.as_mut().map(|cache| &mut cache[layer]);
        x = backend.add(&pass.attention(layer, block, &x, cache)?, &x)?;
        x = backend.add(&pass.feed_forward(block, &x)?, &x)?;
    }
    if let Some(wanted) = &step.wanted {
        x = backend.rows(&x, wanted)?;
    }
    let x = pass.norm(&parts.final_norm, &x)?;
    let logits = match &parts.head {
        Some(head) => pass.product(&x, head, None)?,
        None => backend.linear(&x, &parts.token_embedding, None)?,
    };
    Logits::new(backend.values(&logits)?, step.batch, config.vocab_size)
}

struct Pass<'a, B: Operations> {
    backend: &'a B,
    config: &'a DecoderConfig,
    step: &'a Step<'a>,
    mask: B::Tensor,
    /// Cosines and sines of rotary positions.
    angles: Option<(B::Tensor, B::Tensor)>,
}

impl<B: Operations> Pass<'_, B> {
    fn attention(
        &self,
        layer: usize,
        block: &Block<B::Tensor>,
        x: &B::Tensor,
        cache: Option<&mut (B::Tensor, B::Tensor)>,
    ) -> Result<B::Tensor> {
        let Self { backend, config, step, .. } = self;
        let (heads, kv_heads, d) = (config.n_head, config.n_kv_head, config.head_dim);
        let x = self.norm(&block.attention_norm, x)?;
        let joined = block.attention_in.iter().map(|layer| self.linear(layer, &x)).collect::<Result<Vec<_>>>()?;
        let part = |index: usize, start: usize, count| {
            // One layer's output holds all three, one after the other.
            let (of, start) = if joined.len() == 1 { (&joined[0], start) } else { (&joined[index], 0) };
            backend.heads(of, start * d, (step.batch, count, step.seq_len, d))
        };
        let (mut q, mut k) = (part(0, 0, heads)?, part(1, heads, kv_heads)?);
        let mut v = part(2, heads + kv_heads, kv_heads)?;
        if let Some((cos, sin)) = &self.angles {
            q = backend.rotate(&q, cos, sin)?;
            k = backend.rotate(&k, cos, sin)?;
        }
        if let Some((past_k, past_v)) = cache {
            k = backend.append(past_k, &k, step.past_len)?;
            v = backend.append(past_v, &v, step.past_len)?;
        }
        let attended = backend.attention(&q, &k, &v, &self.mask, config.attention_scale(layer))?;
        self.linear(&block.attention_out, &attended)
    }

    fn feed_forward(&self, block: &Block<B::Tensor>, x: &B::Tensor) -> Result<B::Tensor> {
        let x = self.norm(&block.mlp_norm, x)?;
        let mut hidden = self.backend.activate(&self.linear(&block.mlp_in, &x)?, self.config.activation)?; // (M, I)
        if let Some(up) = &block.mlp_up {
            hidden = self.backend.multiply(&hidden, &self.linear(up, &x)?)?;
        }
        self.linear(&block.mlp_out, &hidden)
    }

    fn linear(&self, linear: &Linear<B::Tensor>, x: &B::Tensor) -> Result<B::Tensor> {
        self.product(x, &linear.weight, linear.bias.as_ref())
    }

    fn product(&self, x: &B::Tensor, weight: &Stored<B::Tensor>, bias: Option<&B::Tensor>) -> Result<B::Tensor> {
        let backend = self.backend;
        match weight {
            Stored::Full(weight) => backend.linear(x, weight, bias),
            Stored::FourBitTensors(weight) => backend.linear(x, &backend.dequantize_4bit(weight)?, bias),
            Stored::Int8Tensors(weight) => backend.linear_int8(x, weight, bias),
            Stored::FourBit(_) | Stored::Int8(_) => Err(Error::system("a quantized matrix outside of tensors")),
        }
    }

    fn norm(&self, norm: &Norm<B::Tensor>, x: &B::Tensor) -> Result<B::Tensor> {
        match &norm.shift {
            Some(shift) => self.backend.layer_norm(x, &norm.scale, shift, self.config.norm_epsilon),
            None => self.backend.rms_norm(x, &norm.scale, self.config.norm_epsilon),
        }
    }
}

/// 0 where a query may look at a key, a very negative number elsewhere: (B or 1, 1, T, S).
fn mask<B: Operations>(backend: &B, config: &DecoderConfig, step: &Step<'_>) -> Result<B::Tensor> {
    /// Finite, so that a query that is padding itself and sees nothing does not become NaN.
    const UNSEEN: f32 = -1e4;
    let (queries, keys) = (step.seq_len, step.past_len + step.seq_len);
    let sequences = if step.key_mask.is_some() { step.batch } else { 1 };
    let window = config.sliding_window.unwrap_or(usize::MAX);
    let size = sequences.checked_mul(queries * keys).ok_or_else(|| Error::input("the batch is too large"))?;
    let mut mask = Vec::with_capacity(size);
    for sequence in 0..sequences {
        let tokens = step.key_mask.map(|mask| &mask[sequence * keys..(sequence + 1) * keys]);
        for position in step.past_len..keys {
            let seen = first_seen(tokens, position, window)..position + 1;
            let sees = |key| seen.contains(&key) && tokens.is_none_or(|tokens| tokens[key]);
            mask.extend((0..keys).map(|key| if sees(key) { 0.0 } else { UNSEEN }));
        }
    }
    backend.numbers(&mask, &[sequences, 1, queries, keys])
}

/// Cosines and sines of each token's position: (B, 1, T, D / 2) each.
fn angles<B: Operations>(
    backend: &B,
    config: &DecoderConfig,
    step: &Step<'_>,
) -> Result<Option<(B::Tensor, B::Tensor)>> {
    let Positions::Rotary { frequencies } = &config.positions else { return Ok(None) };
    let each = step.position_ids.iter().flat_map(|&position| frequencies.iter().map(move |f| position as f32 * f));
    let (sin, cos): (Vec<f32>, Vec<f32>) = each.map(f32::sin_cos).unzip();
    let shape = [step.batch, 1, step.seq_len, frequencies.len()];
    Ok(Some((backend.numbers(&cos, &shape)?, backend.numbers(&sin, &shape)?)))
}
