//! A step of a decoder with the operations of a tensor library, one by one.
//!
//! Letters in shapes as in [`decoder`](crate::model::decoder), and: B sequences, T new tokens of each, M = B T rows,
//! S tokens seen so far (cache and new).

use std::collections::BTreeSet;

use quantlab_kernels::first_seen;

use super::quantized::Tensors;
use super::{Operations, TensorCache};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::model::decoder::{Block, Decoder, Linear, Matrix, Norm};
use crate::model::{DecoderConfig, LayerAttention, Logits, NormKind, Positions, QkNorm, Rotation, Step};

/// The logits of a step; keys and values go into `cache`, if there is one.
pub(super) fn forward<L: Operations>(
    model: &Decoder<L>,
    step: &Step<'_>,
    mut cache: Option<&mut TensorCache<L::Tensor>>,
) -> Result<Logits> {
    let Decoder { config, parts, store: library, .. } = model;
    let pass =
        Pass { library, config, step, masks: masks(library, config, step)?, angles: angles(library, config, step)? };
    let mut x = library.rows(&parts.token_embedding, step.ids)?; // (M, C)
    if config.embedding_scale != 1.0 {
        x = library.scale(&x, model.embedding_scale())?;
    }
    if let Some(positions) = &parts.position_embedding {
        x = library.add(&x, &library.rows(positions, step.position_ids)?)?;
    }
    for (layer, block) in parts.blocks.iter().enumerate() {
        interrupt::check()?;
        let cache = cache.as_mut().map(|cache| &mut cache[layer]);
        let normed = block.attention_norm.as_ref().map(|norm| pass.norm(norm, &x)).transpose()?;
        let attended = library.add(&pass.attention(layer, block, normed.as_ref().unwrap_or(&x), cache)?, &x)?;
        let own = block.mlp_norm.as_ref().map(|norm| pass.norm(norm, &attended)).transpose()?;
        let read = if config.parallel_residual { normed.as_ref() } else { own.as_ref() };
        x = library.add(&pass.feed_forward(block, read.unwrap_or(&attended))?, &attended)?;
    }
    if let Some(wanted) = &step.wanted {
        x = library.rows(&x, wanted)?;
    }
    let x = pass.norm(&parts.final_norm, &x)?;
    let logits = match &parts.head {
        Some(head) => pass.product(&x, head, None)?,
        None => library.linear(&x, &parts.token_embedding, None)?,
    };
    let mut logits = library.values(&logits)?;
    if let Some(change) = config.change_logits() {
        change(&mut logits);
    }
    Logits::new(logits, step.batch, config.vocab_size)
}

struct Pass<'a, L: Operations> {
    library: &'a L,
    config: &'a DecoderConfig,
    step: &'a Step<'a>,
    /// One for each window that layers have; none where every query may look at every key.
    masks: Vec<(Option<usize>, L::Tensor)>,
    /// Cosines and sines of rotary positions, for each rotation, as [`Operations::rotate`] takes them.
    angles: Vec<(L::Tensor, L::Tensor)>,
}

impl<L: Operations> Pass<'_, L> {
    /// What attention adds, from what it reads.
    fn attention(
        &self,
        layer: usize,
        block: &Block<L>,
        x: &L::Tensor,
        cache: Option<&mut (L::Tensor, L::Tensor)>,
    ) -> Result<L::Tensor> {
        let Self { library, config, step, .. } = self;
        let (heads, kv_heads, d) = (config.n_head, config.n_kv_head, config.head_dim);
        let mut joined = block.attention_in.iter().map(|layer| self.linear(layer, x)).collect::<Result<Vec<_>>>()?;
        // Scales that differ between heads are those of columns.
        let by_column = block.qk_norms.as_ref().filter(|_| config.qk_norm != Some(QkNorm::OneForAllHeads));
        for (norms, joined) in by_column.into_iter().flatten().zip(&mut joined) {
            *joined = self.norm_columns(norms, joined)?;
        }
        let part = |index: usize, start: usize, count| {
            // One layer's output holds all three, one after the other.
            let (of, start) = if joined.len() == 1 { (&joined[0], start) } else { (&joined[index], 0) };
            library.heads(of, start * d, (step.batch, count, step.seq_len, d))
        };
        let (mut q, mut k) = (part(0, 0, heads)?, part(1, heads, kv_heads)?);
        let mut v = part(2, heads + kv_heads, kv_heads)?;
        let LayerAttention { window, rotation } = config.layers[layer];
        if let (Some(QkNorm::OneForAllHeads), Some([of_queries, of_keys])) = (config.qk_norm, &block.qk_norms) {
            (q, k) = (self.norm(&of_queries[0], &q)?, self.norm(&of_keys[0], &k)?);
        }
        if let Some((cos, sin)) = rotation.and_then(|rotation| self.angles.get(rotation)) {
            q = library.rotate(&q, cos, sin)?;
            k = library.rotate(&k, cos, sin)?;
        }
        if let Some((past_k, past_v)) = cache {
            k = library.append(past_k, &k, step.past_len)?;
            v = library.append(past_v, &v, step.past_len)?;
        }
        let mask = self.masks.iter().find(|(of, _)| *of == window).map(|(_, mask)| mask);
        let cap = config.soft_caps.attention;
        let attended = library.attention(&q, &k, &v, mask, config.attention_scale(layer), cap)?;
        let y = self.linear(&block.attention_out, &attended)?;
        self.added(block.attention_post_norm.as_ref(), y)
    }

    /// What the feed-forward part adds, from what it reads.
    fn feed_forward(&self, block: &Block<L>, x: &L::Tensor) -> Result<L::Tensor> {
        let library = self.library;
        let inner = self.linear(&block.mlp_in[0], x)?;
        let i = self.config.intermediate_size;
        let (hidden, up) = match &block.mlp_in[..] {
            [_, up] => (inner, Some(self.linear(up, x)?)),
            _ if self.config.gated => {
                (library.column_range(&inner, 0..i)?, Some(library.column_range(&inner, i..2 * i)?))
            }
            _ => (inner, None),
        };
        let mut hidden = library.activate(&hidden, self.config.activation)?; // (M, I)
        if let Some(up) = up {
            hidden = library.multiply(&hidden, &up)?;
        }
        let y = self.linear(&block.mlp_out, &hidden)?;
        self.added(block.mlp_post_norm.as_ref(), y)
    }

    /// What a part adds: its output, after a norm if it has one, times the residual multiplier.
    fn added(&self, norm: Option<&Norm<L>>, y: L::Tensor) -> Result<L::Tensor> {
        let y = if let Some(norm) = norm { self.norm(norm, &y)? } else { y };
        match self.config.residual_multiplier {
            1.0 => Ok(y),
            multiplier => self.library.scale(&y, multiplier.into()),
        }
    }

    /// Norms columns (M, ...), as many for each of `norms`.
    fn norm_columns(&self, norms: &[Norm<L>], x: &L::Tensor) -> Result<L::Tensor> {
        let parts = norms.iter().enumerate().map(|(index, norm)| {
            let columns = index * norm.width..(index + 1) * norm.width;
            self.norm(norm, &self.library.column_range(x, columns)?)
        });
        self.library.side_by_side(&parts.collect::<Result<Vec<_>>>()?)
    }

    fn linear(&self, linear: &Linear<L>, x: &L::Tensor) -> Result<L::Tensor> {
        self.product(x, &linear.weight, linear.bias.as_ref())
    }

    fn product(&self, x: &L::Tensor, weight: &Matrix<L>, bias: Option<&L::Tensor>) -> Result<L::Tensor> {
        let library = self.library;
        match weight {
            Matrix::Full(weight) => library.linear(x, weight, bias),
            Matrix::Quantized(weight) => match &weight.tensors {
                Tensors::FourBit(weight) => {
                    let ordered = weight.columns.as_ref().map(|columns| library.columns(x, columns)).transpose()?;
                    library.linear(ordered.as_ref().unwrap_or(x), &library.dequantize_4bit(weight)?, bias)
                }
                Tensors::Int8(weight) => library.linear_int8(x, weight, bias),
            },
        }
    }

    fn norm(&self, norm: &Norm<L>, x: &L::Tensor) -> Result<L::Tensor> {
        let (library, Norm { scale, shift, .. }, epsilon) = (self.library, norm, self.config.norm_epsilon);
        match self.config.norm {
            NormKind::Layer => library.layer_norm(x, scale, shift.as_ref(), epsilon),
            NormKind::Rms => library.rms_norm(x, scale, 0.0, epsilon),
            NormKind::RmsPlusOne => library.rms_norm(x, scale, 1.0, epsilon),
        }
    }
}

/// The masks of all layers that need one.
fn masks<L: Operations>(
    library: &L,
    config: &DecoderConfig,
    step: &Step<'_>,
) -> Result<Vec<(Option<usize>, L::Tensor)>> {
    let windows: BTreeSet<Option<usize>> = config.layers.iter().map(|layer| layer.window).collect();
    let of_window = |window| Ok(mask(library, window, step)?.map(|mask| (window, mask)));
    windows.into_iter().filter_map(|window| of_window(window).transpose()).collect()
}

/// 0 where a query may look at a key, a very negative number elsewhere: (B or 1, 1, T, S). None if there is no such place,
/// as in most steps of one token.
fn mask<L: Operations>(library: &L, window: Option<usize>, step: &Step<'_>) -> Result<Option<L::Tensor>> {
    /// Finite, so that a query that is padding itself and sees nothing does not become NaN.
    const UNSEEN: f32 = -1e4;
    let (queries, keys) = (step.seq_len, step.past_len + step.seq_len);
    let sequences = if step.key_mask.is_some() { step.batch } else { 1 };
    let window = window.unwrap_or(usize::MAX);
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
    if mask.iter().all(|&number| number == 0.0) {
        return Ok(None);
    }
    library.numbers(&mask, &[sequences, 1, queries, keys]).map(Some)
}

/// Cosines and sines of each token's position, for each rotation: (B, 1, T, R) each.
fn angles<L: Operations>(library: &L, config: &DecoderConfig, step: &Step<'_>) -> Result<Vec<(L::Tensor, L::Tensor)>> {
    let Positions::Rotary { rotations } = &config.positions else { return Ok(Vec::new()) };
    let angles = rotations.iter().map(|Rotation { frequencies, factor }| {
        let shape = [step.batch, 1, step.seq_len, 2 * frequencies.len()];
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        for (&position, sign) in step.position_ids.iter().flat_map(|position| [(position, -1.0), (position, 1.0)]) {
            for frequency in frequencies {
                let angle = position as f32 * frequency;
                cos.push(factor * angle.cos());
                sin.push(sign * factor * angle.sin());
            }
        }
        Ok((library.numbers(&cos, &shape)?, library.numbers(&sin, &shape)?))
    });
    angles.collect()
}
