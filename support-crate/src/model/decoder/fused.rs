//! A step of a decoder on the CPU, with the kernels of [`cpu`](crate::model::cpu), in one sitting.
//!
//! Letters in shapes as in [`parts`](super::parts), and: B sequences, T new tokens of each, M = B T rows.
//!
//! Source: Radford et al. 2019 and `GPT2LMHeadModel` in transformers; Touvron et al. 2023,
//! arXiv:2302.13971, and `LlamaForCausalLM` in transformers.

use super::cache::CpuCache;
use super::parts::{Block, HEAD, Linear, Norm, Parts};
use crate::error::Result;
use crate::model::cpu::{self, Attention, Matrix, Numbers, Scratch, Shares, Then, Weights};
use crate::model::{DecoderConfig, InputObserver, Logits, Positions, Step};

/// A tensor whose numbers lie in main memory, one after the other.
pub(in crate::model) trait InMemory {
    fn numbers(&self) -> Numbers<'_>;
}

/// A step in the making.
struct Pass<'a, T> {
    config: &'a DecoderConfig,
    parts: &'a Parts<T>,
    step: &'a Step<'a>,
    shares: Shares,
    observer: Option<&'a InputObserver<'a>>,
}

/// The logits of a step; keys and values go into `cache`, which has room for them.
pub(in crate::model) fn forward<T: InMemory>(
    config: &DecoderConfig,
    parts: &Parts<T>,
    step: &Step<'_>,
    cache: &mut CpuCache,
) -> Result<Logits> {
    let pass = Pass { config, parts, step, shares: cpu::shares(), observer: None };
    let x = pass.hidden(cache)?;
    let c = config.hidden_size;
    let head = match &parts.head {
        Some(head) => head.weights(),
        None => Weights::Full(parts.token_embedding.numbers()),
    };
    let mut logits = vec![0.0; x.len() / c * config.vocab_size];
    let matrix = Matrix { weights: head, n: config.vocab_size, k: c };
    cpu::multiply(&pass.shares, &x, matrix, Then::default(), &mut logits);
    Logits::new(logits, step.batch, config.vocab_size)
}

/// Shows `observer` what goes into each linear layer in a step, the head too.
pub(in crate::model) fn observe<T: InMemory>(
    config: &DecoderConfig,
    parts: &Parts<T>,
    step: &Step<'_>,
    observer: &InputObserver<'_>,
) -> Result<()> {
    let mut cache = CpuCache::for_one_step(config, step.batch, step.seq_len)?;
    let pass = Pass { config, parts, step, shares: cpu::shares(), observer: Some(observer) };
    observer(HEAD, &pass.hidden(&mut cache)?, config.hidden_size)
}

impl<T: InMemory> Pass<'_, T> {
    /// What the head reads: (M, C), or of the wanted positions only.
    fn hidden(&self, cache: &mut CpuCache) -> Result<Scratch<f32>> {
        let mut x = self.embed(); // (M, C)
        let mut normed = Scratch::any(x.len());
        for (layer, block) in self.parts.blocks.iter().enumerate() {
            self.attention(layer, block, &mut x, &mut normed, cache)?;
            self.feed_forward(block, &mut x, &mut normed)?;
        }
        let c = self.config.hidden_size;
        if let Some(wanted) = &self.step.wanted {
            x = wanted.iter().flat_map(|&row| &x[row as usize * c..(row as usize + 1) * c]).copied().collect();
        }
        normed.truncate(x.len());
        self.norm(&self.parts.final_norm, &x, &mut normed);
        Ok(normed)
    }

    /// The sum of each token's embedding and its position's.
    fn embed(&self) -> Vec<f32> {
        let c = self.config.hidden_size;
        let mut x = vec![0.0; self.step.ids.len() * c];
        add_rows(&self.parts.token_embedding, self.step.ids, c, &mut x);
        if let Some(positions) = &self.parts.position_embedding {
            add_rows(positions, self.step.position_ids, c, &mut x);
        }
        x
    }

    /// Adds what attention makes of `x` (M, C) to it.
    fn attention(
        &self,
        layer: usize,
        block: &Block<T>,
        x: &mut [f32],
        normed: &mut [f32],
        cache: &mut CpuCache,
    ) -> Result<()> {
        let Self { config, step, shares, .. } = self;
        let (d, heads) = (config.head_dim, config.n_head);
        let rows = step.ids.len();
        let width = (heads + 2 * config.n_kv_head) * d;
        self.norm(&block.attention_norm, x, normed);
        let mut qkv = self.joined(&block.attention_in, normed, rows, width)?;
        if let Positions::Rotary { frequencies } = &config.positions {
            self.rotate(frequencies, width, &mut qkv);
        }
        cache.append(layer, step, &qkv, width, heads * d);
        let (k, v) = cache.layer(layer);
        let attention = Attention {
            q: &qkv,
            q_stride: width,
            k,
            v,
            capacity: cache.capacity(),
            batch: step.batch,
            queries: step.seq_len,
            past_len: step.past_len,
            heads,
            group: heads / config.n_kv_head,
            head_dim: d,
            scale: config.attention_scale(layer),
            window: config.sliding_window.unwrap_or(usize::MAX),
            key_mask: step.key_mask,
        };
        let mut attended = Scratch::any(rows * heads * d);
        attention.compute(shares, &mut attended);
        let then = Then { accumulate: true, ..Then::default() };
        self.linear(&block.attention_out, &attended, heads * d, then, x)
    }

    /// Adds what the feed-forward part makes of `x` (M, C) to it.
    fn feed_forward(&self, block: &Block<T>, x: &mut [f32], normed: &mut [f32]) -> Result<()> {
        let (c, inner) = (self.config.hidden_size, self.config.intermediate_size);
        self.norm(&block.mlp_norm, x, normed);
        let mut hidden = Scratch::any(self.step.ids.len() * inner);
        let then = Then { activation: Some(self.config.activation), ..Then::default() };
        self.linear(&block.mlp_in, normed, c, then, &mut hidden)?;
        if let Some(mlp_up) = &block.mlp_up {
            let mut up = Scratch::any(hidden.len());
            self.linear(mlp_up, normed, c, Then::default(), &mut up)?;
            self.shares.split_mut(&mut hidden, 1, 1, &|first, part| {
                cpu::multiply_elements(part, &up[first..first + part.len()]);
            });
        }
        let then = Then { accumulate: true, ..Then::default() };
        self.linear(&block.mlp_out, &hidden, inner, then, x)
    }

    /// The outputs of several layers (M, ...) side by side: (M, width).
    fn joined(&self, layers: &[Linear<T>], x: &[f32], rows: usize, width: usize) -> Result<Scratch<f32>> {
        let (c, mut joined) = (self.config.hidden_size, Scratch::any(rows * width));
        if let [layer] = layers {
            self.linear(layer, x, c, Then::default(), &mut joined)?;
            return Ok(joined);
        }
        let (queries, d) = (self.config.n_head * self.config.head_dim, self.config.n_kv_head * self.config.head_dim);
        let mut start = 0;
        for (layer, n) in layers.iter().zip([queries, d, d]) {
            let mut out = Scratch::any(rows * n);
            self.linear(layer, x, c, Then::default(), &mut out)?;
            for (joined, out) in joined.chunks_exact_mut(width).zip(out.chunks_exact(n)) {
                joined[start..start + n].copy_from_slice(out);
            }
            start += n;
        }
        Ok(joined)
    }

    fn linear(&self, linear: &Linear<T>, x: &[f32], k: usize, then: Then<'_>, out: &mut [f32]) -> Result<()> {
        if let Some(observer) = self.observer {
            observer(&linear.name, x, k)?;
        }
        let n = out.len() / (x.len() / k);
        let matrix = Matrix { weights: linear.weight.weights(), n, k };
        let bias = linear.bias.as_ref().map(|bias| numbers(bias));
        cpu::multiply(&self.shares, x, matrix, Then { bias, ..then }, out);
        Ok(())
    }

    fn norm(&self, norm: &Norm<T>, x: &[f32], out: &mut [f32]) {
        let (c, epsilon) = (self.config.hidden_size, self.config.norm_epsilon as f32);
        let (scale, shift) = (numbers(&norm.scale), norm.shift.as_ref().map(|shift| numbers(shift)));
        self.shares.split_mut(out, c, 4 * c, &|first, out| {
            let x = &x[first * c..first * c + out.len()];
            match shift {
                Some(shift) => cpu::layer_norm(x, scale, shift, epsilon, out),
                None => cpu::rms_norm(x, scale, epsilon, out),
            }
        });
    }

    /// Turns queries and keys, which begin each row of `qkv`, by their positions.
    fn rotate(&self, frequencies: &[f32], width: usize, qkv: &mut [f32]) {
        let d = self.config.head_dim;
        let turned = (self.config.n_head + self.config.n_kv_head) * d;
        let positions = self.step.position_ids;
        self.shares.split_mut(qkv, width, 8 * turned, &|first, rows| {
            for (row, &position) in rows.chunks_exact_mut(width).zip(&positions[first..]) {
                let angles = frequencies.iter().map(|frequency| position as f32 * frequency);
                let (sin, cos): (Vec<f32>, Vec<f32>) = angles.map(f32::sin_cos).unzip();
                row[..turned].chunks_exact_mut(d).for_each(|head| cpu::rotate(head, &cos, &sin));
            }
        });
    }
}

/// Adds rows of a table to rows of `out`.
fn add_rows<T: InMemory>(table: &T, rows: &[u32], c: usize, out: &mut [f32]) {
    for (out, &row) in out.chunks_exact_mut(c).zip(rows) {
        let range = row as usize * c..(row as usize + 1) * c;
        match table.numbers() {
            Numbers::Float32(values) => out.iter_mut().zip(&values[range]).for_each(|(out, value)| *out += value),
            Numbers::BFloat16(values) => {
                out.iter_mut().zip(&values[range]).for_each(|(out, value)| *out += value.to_f32());
            }
        }
    }
}

/// The numbers of a bias or a norm, which on the CPU are float32 whatever the matrices are.
pub(in crate::model) fn numbers<T: InMemory>(tensor: &T) -> &[f32] {
    match tensor.numbers() {
        Numbers::Float32(values) => values,
        Numbers::BFloat16(_) => unreachable!("vectors are loaded in the format that is computed in"),
    }
}
