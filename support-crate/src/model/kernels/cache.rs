//! Keys and values in main memory.

use std::ops::Range;

use half::f16;
use quantlab_kernels::{
    Attention, KEY_PANEL, KeysValues, QuantizedAttention, QuantizedKv, Run, ThreadScope, put_key, to_f16, zeros,
};

use crate::error::{Error, Result};
use crate::model::cache::no_cache_room;
use crate::model::{CacheFormat, DecoderConfig, Step};

/// Keys and values of each layer, (B, J, capacity, D) each, keys in panels ([`put_key`]): what the attention of one head
/// reads is contiguous.
#[derive(Debug)]
pub struct KernelCache {
    pub(super) layers: Vec<Layer>,
    pub(super) format: CacheFormat,
    /// J
    pub(super) kv_heads: usize,
    pub(super) capacity: usize,
    pub(super) head_dim: usize,
    /// Whether all layers use the memory of the first: what a step without a cache needs.
    shared: bool,
    /// The most tokens that each sequence has had since it began, padding not counted.
    pub(super) longest: Vec<usize>,
    /// Memory for a step's.
    runs: Vec<Run>,
    /// Memory for a token's.
    narrow: Vec<f16>,
}

/// Keys and values of a layer, in the format of the cache.
#[derive(Debug)]
pub(super) enum Layer {
    Float32([Vec<f32>; 2]),
    Float16([Vec<f16>; 2]),
    Quantized(QuantizedKv),
}

/// Sequences that go on, and where their keys and values are.
pub struct Part<'a> {
    pub step: &'a Step<'a>,
    pub cache: &'a mut KernelCache,
}

/// Queries, keys and values of new tokens, and what attention makes of them.
#[derive(Clone, Copy)]
pub struct NewTokens<'a> {
    /// Rows of `width` numbers: H heads of queries, J of keys, J of values.
    pub qkv: &'a [f32],
    pub width: usize,
    /// H
    pub heads: usize,
    pub scale: f32,
    pub soft_cap: Option<f32>,
    pub window: usize,
}

impl KernelCache {
    /// Room for `batch` sequences of `capacity` tokens, in any format but bfloat16.
    ///
    /// # Errors
    /// The system does not give the memory.
    pub fn new(config: &DecoderConfig, batch: usize, capacity: usize, format: CacheFormat) -> Result<Self> {
        Self::with_layers(config, batch, capacity, format, false)
    }

    /// Room for what one layer needs at a time, in float32.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_one_step(config: &DecoderConfig, batch: usize, capacity: usize) -> Result<Self> {
        Self::with_layers(config, batch, capacity, CacheFormat::Float32, true)
    }

    fn with_layers(
        config: &DecoderConfig,
        batch: usize,
        capacity: usize,
        format: CacheFormat,
        shared: bool,
    ) -> Result<Self> {
        let count = if shared { 1 } else { config.n_layer };
        let layers = (0..count).map(|_| Layer::new(config, batch, capacity, format)).collect::<Option<_>>();
        let needed = || config.cache_bytes_of(count, format, batch, capacity);
        let layers = layers.ok_or_else(|| no_cache_room(needed(), batch, capacity, None))?;
        // Codes go on after a cut only where enough of the last tokens are left.
        let longest = if format.kv_bits().is_some() { vec![0; batch] } else { Vec::new() };
        let (kv_heads, head_dim) = (config.n_kv_head, config.head_dim);
        Ok(Self { layers, format, kv_heads, capacity, head_dim, shared, longest, runs: Vec::new(), narrow: Vec::new() })
    }

    /// Bytes of all layers.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(Layer::bytes).sum()
    }

    /// Takes the keys and values of new tokens, and writes what their queries find, (M, H D), to `out`.
    fn attend(&mut self, scope: &ThreadScope, layer: usize, step: &Step<'_>, new: NewTokens<'_>, out: &mut [f32]) {
        if let Layer::Quantized(_) = &self.layers[self.index(layer)] {
            return self.attend_to_codes(scope, layer, step, new, out);
        }
        self.append(layer, step, new);
        self.attention(layer, step, new).iter().for_each(|attention| attention.compute(scope, out));
    }

    /// The layer's place among those that have memory.
    fn index(&self, layer: usize) -> usize {
        if self.shared { 0 } else { layer }
    }

    /// Attention of tokens whose keys and values have been taken; `None` where they are codes.
    fn attention<'a>(&'a self, layer: usize, step: &'a Step<'_>, new: NewTokens<'a>) -> Option<Attention<'a>> {
        let NewTokens { qkv, width, heads, scale, soft_cap, window } = new;
        Some(Attention {
            q: qkv,
            q_stride: width,
            kv: match &self.layers[self.index(layer)] {
                Layer::Float32([k, v]) => KeysValues::Float32 { k, v },
                Layer::Float16([k, v]) => KeysValues::Float16 { k, v },
                Layer::Quantized(_) => return None,
            },
            capacity: self.capacity,
            batch: step.batch,
            queries: step.seq_len,
            past_len: step.past_len,
            heads,
            group: heads / self.kv_heads,
            head_dim: self.head_dim,
            scale,
            soft_cap,
            window,
            key_mask: step.key_mask,
        })
    }

    /// Attention to codes: some tokens at a time, as many as are kept in float16 for a while. Padding is not kept at
    /// all, and so a sequence's groups are the same with padding and without; its rows of `out` are 0.
    fn attend_to_codes(
        &mut self,
        scope: &ThreadScope,
        layer: usize,
        step: &Step<'_>,
        new: NewTokens<'_>,
        out: &mut [f32],
    ) {
        if step.key_mask.is_some() {
            out.fill(0.0);
        }
        for first in (0..step.seq_len).step_by(QuantizedKv::MOST) {
            self.append_codes(scope, layer, step, first..step.seq_len.min(first + QuantizedKv::MOST), new);
            self.attention_to_codes(layer, new).iter().for_each(|attention| attention.compute(scope, out));
        }
    }

    /// Takes keys and values of some columns of a step, which become `runs`.
    fn append_codes(
        &mut self,
        scope: &ThreadScope,
        layer: usize,
        step: &Step<'_>,
        columns: Range<usize>,
        NewTokens { qkv, width, heads, .. }: NewTokens<'_>,
    ) {
        let index = self.index(layer);
        let Self { layers, head_dim, longest, runs, .. } = self;
        runs.clear();
        extend_with_runs(runs, step, columns);
        for run in &*runs {
            let (end, longest) = (run.position + run.count, &mut longest[run.sequence]);
            *longest = if run.position == 0 { end } else { end.max(*longest) };
        }
        if let Layer::Quantized(kv) = &mut layers[index] {
            kv.append(scope, runs, qkv, width, heads * *head_dim);
        }
    }

    /// Attention of `runs`; `None` where keys and values are no codes.
    fn attention_to_codes<'a>(&'a self, layer: usize, new: NewTokens<'a>) -> Option<QuantizedAttention<'a>> {
        let Layer::Quantized(kv) = &self.layers[self.index(layer)] else { return None };
        let NewTokens { qkv, width, heads, scale, soft_cap, window } = new;
        let group = heads / self.kv_heads;
        Some(QuantizedAttention { q: qkv, q_stride: width, kv, runs: &self.runs, group, scale, soft_cap, window })
    }

    /// Takes keys, which follow the queries in each row, and the values after them.
    fn append(&mut self, layer: usize, step: &Step<'_>, NewTokens { qkv, width, heads, .. }: NewTokens<'_>) {
        let index = self.index(layer);
        let Self { layers, kv_heads, capacity, head_dim, narrow, .. } = self;
        let start = heads * *head_dim;
        for (row, numbers) in qkv.chunks_exact(width).enumerate() {
            let numbers = &numbers[start..start + 2 * *kv_heads * *head_dim];
            let (sequence, position) = (row / step.seq_len, step.past_len + row % step.seq_len);
            let place = Place { first_head: sequence * *kv_heads, position, capacity: *capacity, head_dim: *head_dim };
            match &mut layers[index] {
                Layer::Float32(kv) => place.put(numbers, kv),
                Layer::Float16(kv) => {
                    narrow.resize(numbers.len(), f16::ZERO);
                    to_f16(numbers, narrow);
                    place.put(narrow, kv);
                }
                Layer::Quantized(_) => unreachable!("has its own"),
            }
        }
    }

    /// Makes sequence `rows[i]` sequence `i`; `rows` ascends.
    pub fn retain(&mut self, rows: &[usize], past_len: usize) {
        // Panels of keys as a whole.
        let used = past_len.next_multiple_of(KEY_PANEL).min(self.capacity) * self.head_dim;
        let head = self.capacity * self.head_dim;
        for (to, &from) in rows.iter().enumerate().filter(|(to, from)| to != *from) {
            if let Some(&longest) = self.longest.get(from) {
                self.longest[to] = longest;
            }
            for layer in &mut self.layers {
                let places =
                    (0..self.kv_heads).map(|h| ((from * self.kv_heads + h) * head, (to * self.kv_heads + h) * head));
                match layer {
                    Layer::Float32(kv) => places.for_each(|(from, to)| {
                        kv.iter_mut().for_each(|kv| kv.copy_within(from..from + used, to));
                    }),
                    Layer::Float16(kv) => places.for_each(|(from, to)| {
                        kv.iter_mut().for_each(|kv| kv.copy_within(from..from + used, to));
                    }),
                    Layer::Quantized(kv) => kv.copy(from, to, self.longest[to]),
                }
            }
        }
    }

    /// Makes sure that each sequence can go on with the tokens of a step. It has had more than are before them if a step
    /// was interrupted.
    ///
    /// # Errors
    /// As [`check_cut`](Self::check_cut).
    pub fn check_step(&self, step: &Step<'_>) -> Result<()> {
        let (past_len, keys) = (step.past_len, step.past_len + step.seq_len);
        let is_token = |sequence, column| step.key_mask.is_none_or(|mask| mask[sequence * keys + past_len + column]);
        self.check_cut((0..step.batch).map(|sequence| {
            let first = (0..step.seq_len).find(|&column| is_token(sequence, column));
            first.map_or(0, |column| step.position_ids[sequence * step.seq_len + column] as usize)
        }))
    }

    /// Makes sure that each sequence can go on after its first tokens, given their numbers.
    ///
    /// # Errors
    /// One of them is a code by now where the next token would want a float16.
    pub fn check_cut(&self, tokens: impl IntoIterator<Item = usize>) -> Result<()> {
        for (sequence, (&longest, tokens)) in self.longest.iter().zip(tokens).enumerate() {
            if !QuantizedKv::can_go_on(longest, tokens) {
                return Err(Error::input(format!(
                    "a cache in {} cannot go so far back: sequence {sequence} has had {longest} tokens, and can go \
                     on after {} of them at least, not after {tokens}",
                    self.format,
                    QuantizedKv::fewest_to_go_on(longest)
                ))
                .hint("`reset` the cache and compute the sequence again, or keep keys and values in float16"));
            }
        }
        Ok(())
    }
}

/// Where the keys and values of a token are.
struct Place {
    /// The first of its sequence, counted through the sequences.
    first_head: usize,
    position: usize,
    capacity: usize,
    head_dim: usize,
}

impl Place {
    /// Puts there the keys of its heads and, after them, the values.
    fn put<T: Copy>(&self, numbers: &[T], [keys, values]: &mut [Vec<T>; 2]) {
        let Self { first_head, position, capacity, head_dim: d } = *self;
        let (of_keys, of_values) = numbers.split_at(numbers.len() / 2);
        for (head, (key, value)) in of_keys.chunks_exact(d).zip(of_values.chunks_exact(d)).enumerate() {
            let head = (first_head + head) * capacity * d..(first_head + head + 1) * capacity * d;
            put_key(&mut keys[head.clone()], capacity, position, key);
            values[head][position * d..(position + 1) * d].copy_from_slice(value);
        }
    }
}

/// Takes the keys and values of new tokens, whose rows are those of the parts one below the other, and writes what
/// their queries find, (M, H D), to `out`.
pub fn attend(parts: &mut [Part<'_>], scope: &ThreadScope, layer: usize, new: NewTokens<'_>, mut out: &mut [f32]) {
    // A step of its own allocates nothing.
    if let [Part { step, cache }] = parts {
        return cache.attend(scope, layer, step, new, out);
    }
    let (mut qkv, out_width) = (new.qkv, out.len() / (new.qkv.len() / new.width));
    let (mut plain, mut coded) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
    for Part { step, cache } in parts {
        let (of_part, rest) = qkv.split_at(step.ids.len() * new.width);
        let (out_of_part, rest_of_out) = std::mem::take(&mut out).split_at_mut(step.ids.len() * out_width);
        (qkv, out) = (rest, rest_of_out);
        let new = NewTokens { qkv: of_part, ..new };
        match cache.layers[cache.index(layer)] {
            // More than can be taken at once.
            Layer::Quantized(_) if step.seq_len > QuantizedKv::MOST || step.key_mask.is_some() => {
                cache.attend_to_codes(scope, layer, step, new, out_of_part);
            }
            Layer::Quantized(_) => {
                cache.append_codes(scope, layer, step, 0..step.seq_len, new);
                coded.extend(cache.attention_to_codes(layer, new).map(|attention| (attention, out_of_part)));
            }
            _ => {
                cache.append(layer, step, new);
                plain.extend(cache.attention(layer, step, new).map(|attention| (attention, out_of_part)));
            }
        }
    }
    Attention::compute_all(plain, scope);
    QuantizedAttention::compute_all(coded, scope);
}

/// The tokens of some columns of a step, padding left out.
fn extend_with_runs(runs: &mut Vec<Run>, step: &Step<'_>, columns: Range<usize>) {
    let keys = step.past_len + step.seq_len;
    for sequence in 0..step.batch {
        let mut follows = false;
        for column in columns.clone() {
            let is_token = step.key_mask.is_none_or(|mask| mask[sequence * keys + step.past_len + column]);
            let row = sequence * step.seq_len + column;
            match runs.last_mut().filter(|_| follows) {
                _ if !is_token => (),
                Some(run) => run.count += 1,
                None => runs.push(Run { sequence, position: step.position_ids[row] as usize, row, count: 1 }),
            }
            follows = is_token;
        }
    }
}

impl Layer {
    /// `None` if there is not enough memory.
    fn new(config: &DecoderConfig, batch: usize, capacity: usize, format: CacheFormat) -> Option<Self> {
        let (heads, head_dim) = (config.n_kv_head, config.head_dim);
        if let Some(bits) = format.kv_bits() {
            return QuantizedKv::new(bits, batch, heads, capacity, head_dim).map(Self::Quantized);
        }
        let len = [heads, capacity, head_dim].iter().try_fold(batch, |len, &size| len.checked_mul(size))?;
        Some(match format {
            CacheFormat::Float16 => Self::Float16([zeros(len)?, zeros(len)?]),
            _ => Self::Float32([zeros(len)?, zeros(len)?]),
        })
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Float32([k, v]) => size_of_val(&k[..]) + size_of_val(&v[..]),
            Self::Float16([k, v]) => size_of_val(&k[..]) + size_of_val(&v[..]),
            Self::Quantized(kv) => kv.bytes(),
        }
    }
}
