//! A step of a decoder on the CPU, computed in one go by the kernels of [`quantlab_kernels`].
//!
//! Letters in shapes as in [`decoder`](crate::model::decoder), and: B sequences, T new tokens of each, M = B T rows.
//! Memory of a step is kept for the next one: a step of one token allocates nothing.
//!
//! Source: Radford et al. 2019 and `GPT2LMHeadModel` in transformers; Touvron et al. 2023,
//! arXiv:2302.13971, and `LlamaForCausalLM` in transformers.

use quantlab_kernels::{self as cpu, Epilogue, Inputs, Scratch, ThreadScope, Weights, matmul, thread_scope};

use super::array::Array;
use super::cache::{NewTokens, Part, attend};
use super::{KernelCache, Kernels};
use crate::error::Result;
use crate::interrupt;
use crate::model::decoder::{self, Decoder, HEAD, Matrix};
use crate::model::{InputObserver, LayerAttention, Logits, NormKind, Operation, Positions, Rotation, Step, Tracer};

type Block = decoder::Block<Kernels>;
type Linear = decoder::Linear<Kernels>;
type Norm = decoder::Norm<Kernels>;

impl Decoder<Kernels> {
    /// The logits of a step; keys and values go into `cache`, which has room for them.
    pub(super) fn forward(&self, step: &Step<'_>, cache: &mut KernelCache) -> Result<Logits> {
        self.logits(&Pass::new(self, step), &mut [Part { step, cache }])
    }

    /// The same for several steps, of one sequence each, in one pass; the logits are those after the last tokens.
    pub(super) fn forward_together(&self, parts: &mut [Part<'_>]) -> Result<Logits> {
        let ids: Vec<u32> = parts.iter().flat_map(|part| part.step.ids).copied().collect();
        let positions: Vec<u32> = parts.iter().flat_map(|part| part.step.position_ids).copied().collect();
        let mut end = 0;
        let last = |part: &Part<'_>| {
            end += part.step.ids.len() as u32;
            end - 1
        };
        // All rows one below the other, whatever the sequence: only attention asks where one begins.
        let rows = Step {
            wanted: Some(parts.iter().map(last).collect()),
            ids: &ids,
            batch: parts.len(),
            seq_len: 1,
            past_len: 0,
            position_ids: &positions,
            key_mask: None,
        };
        self.logits(&Pass::new(self, &rows), parts)
    }

    fn logits(&self, pass: &Pass<'_>, parts: &mut [Part<'_>]) -> Result<Logits> {
        let x = pass.hidden(parts)?;
        let (c, v) = (self.config.hidden_size, self.config.vocab_size);
        let weights = self.parts.head.as_ref().map_or(&self.parts.token_embedding as &dyn Weights, Matrix::weights);
        let mut logits = Logits::memory(x.len() / c * v);
        matmul(&pass.scope, &x, cpu::Matrix { weights, n: v, k: c }, Epilogue::default(), &mut logits);
        if let Some(change) = self.config.change_logits() {
            pass.scope.split_mut(&mut logits, 1, 16, &|_, logits| change(logits));
        }
        Logits::new(logits, pass.step.batch, v)
    }

    /// Shows `observer` what goes into each linear layer in a step, the head too.
    pub(super) fn forward_observed(&self, step: &Step<'_>, observer: &InputObserver<'_>) -> Result<()> {
        let mut cache = KernelCache::for_one_step(&self.config, step.batch, step.seq_len)?;
        let pass = Pass { observer: Some(observer), ..Pass::new(self, step) };
        let hidden = pass.hidden(&mut [Part { step, cache: &mut cache }])?;
        observer(HEAD, &hidden, self.config.hidden_size, &pass.scope)
    }

    /// Shows `tracer` what each operation of a step gives, before the logits.
    pub(super) fn forward_traced(&self, step: &Step<'_>, tracer: &Tracer<'_>) -> Result<Logits> {
        let mut cache = KernelCache::for_one_step(&self.config, step.batch, step.seq_len)?;
        let pass = Pass { tracer: Some(tracer), ..Pass::new(self, step) };
        self.logits(&pass, &mut [Part { step, cache: &mut cache }])
    }
}

/// A step in the making.
struct Pass<'a> {
    model: &'a Decoder<Kernels>,
    /// Of all parts together.
    step: &'a Step<'a>,
    scope: ThreadScope,
    observer: Option<&'a InputObserver<'a>>,
    tracer: Option<&'a Tracer<'a>>,
    /// For each rotation of the model and each token, the cosines and then the sines of the position's angles, R numbers.
    rotations: Option<Scratch<f32>>,
}

impl<'a> Pass<'a> {
    fn new(model: &'a Decoder<Kernels>, step: &'a Step<'a>) -> Self {
        let scope = thread_scope();
        let rotations = match &model.config.positions {
            Positions::Learned => None,
            Positions::Rotary { rotations } => Some(turned(&scope, rotations, step.position_ids)),
        };
        Self { model, step, scope, observer: None, tracer: None, rotations }
    }

    /// What the head reads: (M, C), or of the wanted positions only.
    fn hidden(&self, parts: &mut [Part<'_>]) -> Result<Scratch<f32>> {
        parts.iter().try_for_each(|part| part.cache.check_step(part.step))?;
        let c = self.model.config.hidden_size;
        let mut x = self.embed(); // (M, C)
        self.trace(None, Operation::Embedding, &x);
        let mut normed = Scratch::uninit(x.len());
        for (layer, block) in self.model.parts.blocks.iter().enumerate() {
            interrupt::check()?;
            self.attention(layer, block, &mut x, &mut normed, parts)?;
            self.trace(Some(layer), Operation::AttentionResidual, &x);
            self.feed_forward(layer, block, &mut x, &mut normed)?;
            self.trace(Some(layer), Operation::MlpResidual, &x);
        }
        if let Some(wanted) = &self.step.wanted {
            // They ascend, and so none is overwritten before it is read.
            for (to, &from) in wanted.iter().enumerate() {
                x.copy_within(from as usize * c..(from as usize + 1) * c, to * c);
            }
            x.truncate(wanted.len() * c);
        }
        normed.truncate(x.len());
        self.norm(&self.model.parts.final_norm, &x, &mut normed);
        self.trace(None, Operation::FinalNorm, &normed);
        Ok(normed)
    }

    /// The sum of each token's embedding and its position's.
    fn embed(&self) -> Scratch<f32> {
        let (parts, c) = (&self.model.parts, self.model.config.hidden_size);
        let mut x = Scratch::uninit(self.step.ids.len() * c);
        x.fill(0.0);
        let add = |table: &Array, rows: &[u32], x: &mut [f32]| {
            x.chunks_exact_mut(c).zip(rows).for_each(|(out, &row)| table.add_row(row as usize, out));
        };
        add(&parts.token_embedding, self.step.ids, &mut x);
        if self.model.config.embedding_scale != 1.0 {
            let scale = self.model.embedding_scale() as f32;
            x.iter_mut().for_each(|x| *x *= scale);
        }
        if let Some(positions) = &parts.position_embedding {
            add(positions, self.step.position_ids, &mut x);
        }
        x
    }

    /// Adds the output of attention for `x` (M, C) to `x`.
    fn attention(
        &self,
        layer: usize,
        block: &Block,
        x: &mut [f32],
        normed: &mut [f32],
        parts: &mut [Part<'_>],
    ) -> Result<()> {
        let Self { model: Decoder { config, .. }, step, scope, .. } = self;
        let (d, heads) = (config.head_dim, config.n_head);
        let rows = step.ids.len();
        let width = (heads + 2 * config.n_kv_head) * d;
        let inputs = self.input(block.attention_norm.as_ref(), x, normed);
        self.trace(Some(layer), Operation::AttentionNorm, inputs);
        let mut qkv = self.joined(&block.attention_in, inputs, rows, width)?;
        let LayerAttention { window, rotation } = config.layers[layer];
        if let Some(norms) = &block.qk_norms {
            self.norm_heads(norms, width, &mut qkv);
        }
        if let Some(rotation) = rotation {
            self.rotate(rotation, width, &mut qkv);
        }
        if self.tracer.is_some() {
            self.trace_joined(layer, width, &qkv);
        }
        let new = NewTokens {
            qkv: &qkv,
            width,
            heads,
            scale: config.attention_scale(layer),
            soft_cap: config.soft_caps.attention,
            window: window.unwrap_or(usize::MAX),
        };
        let mut attended = Scratch::uninit(rows * heads * d);
        attend(parts, scope, layer, new, &mut attended);
        self.trace(Some(layer), Operation::Attention, &attended);
        self.add(&block.attention_out, &attended, block.attention_post_norm.as_ref(), normed, x)
    }

    /// Adds the output of the feed-forward part for `x` (M, C) to `x`.
    fn feed_forward(&self, layer: usize, block: &Block, x: &mut [f32], normed: &mut [f32]) -> Result<()> {
        let config = &self.model.config;
        let (c, inner) = (config.hidden_size, config.intermediate_size);
        // What attention has read is still there.
        let inputs = if config.parallel_residual { &*normed } else { self.input(block.mlp_norm.as_ref(), x, normed) };
        self.trace(Some(layer), Operation::MlpNorm, inputs);
        let (mut hidden, inputs) = (Scratch::uninit(self.step.ids.len() * inner), &Inputs::new(inputs));
        let activated = Epilogue { activation: Some(config.activation), ..Epilogue::default() };
        match &block.mlp_in[..] {
            [gate_up] if config.gated => {
                let mut both = Scratch::uninit(2 * hidden.len()); // (M, 2 I)
                self.linear(gate_up, inputs, c, Epilogue::default(), &mut both)?;
                self.scope.split_mut(&mut hidden, inner, inner, &|first, rows| {
                    for (out, both) in
                        rows.chunks_exact_mut(inner).zip(both[2 * inner * first..].chunks_exact(2 * inner))
                    {
                        let (gate, up) = both.split_at(inner);
                        out.copy_from_slice(gate);
                        cpu::activate(out, config.activation);
                        cpu::multiply(out, up);
                    }
                });
            }
            layers => {
                self.linear(&layers[0], inputs, c, activated, &mut hidden)?;
                if let Some(up) = layers.get(1) {
                    let mut factors = Scratch::uninit(hidden.len());
                    self.linear(up, inputs, c, Epilogue::default(), &mut factors)?;
                    self.scope.split_mut(&mut hidden, 1, 1, &|first, part| {
                        cpu::multiply(part, &factors[first..first + part.len()]);
                    });
                }
            }
        }
        self.trace(Some(layer), Operation::MlpHidden, &hidden);
        self.add(&block.mlp_out, &hidden, block.mlp_post_norm.as_ref(), normed, x)
    }

    /// What a part reads: `x` (M, C), after a norm if there is one.
    fn input<'x>(&self, norm: Option<&Norm>, x: &'x [f32], normed: &'x mut [f32]) -> &'x [f32] {
        let Some(norm) = norm else { return x };
        self.norm(norm, x, normed);
        normed
    }

    /// Adds a layer's output for `inputs` to `x` (M, C), after a norm if there is one, times the residual multiplier.
    fn add(
        &self,
        layer: &Linear,
        inputs: &[f32],
        post_norm: Option<&Norm>,
        normed: &mut [f32],
        x: &mut [f32],
    ) -> Result<()> {
        let ([_, k], multiplier) = (layer.shape, self.model.config.residual_multiplier);
        let inputs = &Inputs::new(inputs);
        if post_norm.is_none() && multiplier == 1.0 {
            return self.linear(layer, inputs, k, Epilogue { accumulate: true, ..Epilogue::default() }, x);
        }
        let mut out = Scratch::uninit(x.len());
        self.linear(layer, inputs, k, Epilogue::default(), &mut out)?;
        let added = self.input(post_norm, &out, normed);
        x.iter_mut().zip(added).for_each(|(x, added)| *x += multiplier * added);
        Ok(())
    }

    /// The outputs of several layers (M, ...) side by side: (M, width).
    fn joined(&self, layers: &[Linear], x: &[f32], rows: usize, width: usize) -> Result<Scratch<f32>> {
        let (config, x) = (&self.model.config, &Inputs::new(x));
        let (c, mut joined) = (config.hidden_size, Scratch::uninit(rows * width));
        if let [layer] = layers {
            self.linear(layer, x, c, Epilogue::default(), &mut joined)?;
            return Ok(joined);
        }
        let (queries, d) = (config.n_head * config.head_dim, config.n_kv_head * config.head_dim);
        let mut start = 0;
        for (layer, n) in layers.iter().zip([queries, d, d]) {
            let mut out = Scratch::uninit(rows * n);
            self.linear(layer, x, c, Epilogue::default(), &mut out)?;
            for (joined, out) in joined.chunks_exact_mut(width).zip(out.chunks_exact(n)) {
                joined[start..start + n].copy_from_slice(out);
            }
            start += n;
        }
        Ok(joined)
    }

    fn linear(&self, linear: &Linear, x: &Inputs<'_>, k: usize, epilogue: Epilogue<'_>, out: &mut [f32]) -> Result<()> {
        if let Some(observer) = self.observer {
            observer(&linear.name, x.rows(), k, &self.scope)?;
        }
        let n = out.len() / (x.rows().len() / k);
        let matrix = cpu::Matrix { weights: linear.weight.weights(), n, k };
        x.multiply(&self.scope, matrix, Epilogue { bias: linear.bias.as_deref(), ..epilogue }, out);
        Ok(())
    }

    fn norm(&self, norm: &Norm, x: &[f32], out: &mut [f32]) {
        let (c, epsilon, offset) = (norm.scale.len(), self.model.config.norm_epsilon as f32, self.scale_offset());
        self.scope.split_mut(out, c, 4 * c, &|first, out| {
            let x = &x[first * c..first * c + out.len()];
            match &norm.shift {
                Some(shift) => cpu::layer_norm(x, &norm.scale, shift, epsilon, out),
                None => cpu::rms_norm(x, &norm.scale, offset, epsilon, out),
            }
        });
    }

    fn trace(&self, layer: Option<usize>, operation: Operation, values: &[f32]) {
        if let Some(tracer) = self.tracer {
            tracer(layer, operation, values);
        }
    }

    /// Traces queries, keys and values, which lie side by side in each row.
    fn trace_joined(&self, layer: usize, width: usize, qkv: &[f32]) {
        let config = &self.model.config;
        let (keys, values) = (config.n_head * config.head_dim, (config.n_head + config.n_kv_head) * config.head_dim);
        let columns =
            [(Operation::Queries, 0..keys), (Operation::Keys, keys..values), (Operation::Values, values..width)];
        for (operation, columns) in columns {
            let rows: Vec<&[f32]> = qkv.chunks_exact(width).map(|row| &row[columns.clone()]).collect();
            self.trace(Some(layer), operation, &rows.concat());
        }
    }

    /// What is added to the scales of norms.
    fn scale_offset(&self) -> f32 {
        if self.model.config.norm == NormKind::RmsPlusOne { 1.0 } else { 0.0 }
    }

    /// Norms queries and keys, which begin each row of `qkv`.
    fn norm_heads(&self, norms: &[Vec<Norm>; 2], width: usize, qkv: &mut [f32]) {
        let config = &self.model.config;
        let (epsilon, offset) = (config.norm_epsilon as f32, self.scale_offset());
        let mut no_shift = Scratch::uninit(config.head_dim);
        no_shift.fill(0.0);
        let (queries, both) = (config.n_head * config.head_dim, (config.n_head + config.n_kv_head) * config.head_dim);
        self.scope.split_mut(qkv, width, 4 * both, &|_, rows| {
            let mut before = Scratch::uninit(both);
            for row in rows.chunks_exact_mut(width) {
                before.copy_from_slice(&row[..both]);
                let (q, k) = row[..both].split_at_mut(queries);
                for (norms, before, out) in [(&norms[0], &before[..queries], q), (&norms[1], &before[queries..], k)] {
                    let len = out.len() / norms.len();
                    let parts = before.chunks_exact(len).zip(out.chunks_exact_mut(len));
                    for (Norm { scale, .. }, (before, out)) in norms.iter().zip(parts) {
                        match config.norm {
                            NormKind::Layer => cpu::layer_norm(before, scale, &no_shift, epsilon, out),
                            _ => cpu::rms_norm(before, scale, offset, epsilon, out),
                        }
                    }
                }
            }
        });
    }

    /// Turns queries and keys, which begin each row of `qkv`, by their positions and one of the model's rotations.
    fn rotate(&self, rotation: usize, width: usize, qkv: &mut [f32]) {
        let config = &self.model.config;
        let (Positions::Rotary { rotations }, Some(turned)) = (&config.positions, &self.rotations) else { return };
        let (rows, r) = (self.step.ids.len(), 2 * rotations[rotation].frequencies.len());
        let of_tokens = &turned[rotation * rows * r..(rotation + 1) * rows * r];
        let (d, heads) = (config.head_dim, config.n_head + config.n_kv_head);
        self.scope.split_mut(qkv, width, 8 * heads * d, &|first, rows| {
            for (row, of_token) in rows.chunks_exact_mut(width).zip(of_tokens[first * r..].chunks_exact(r)) {
                let (cos, sin) = of_token.split_at(r / 2);
                row[..heads * d].chunks_exact_mut(d).for_each(|head| cpu::rotate(&mut head[..r], cos, sin));
            }
        });
    }
}

/// See [`Pass::rotations`]. All rotations of a model are of as many numbers.
fn turned(scope: &ThreadScope, rotations: &[Rotation], positions: &[u32]) -> Scratch<f32> {
    let half = rotations[0].frequencies.len();
    let mut turned = Scratch::uninit(rotations.len() * positions.len() * 2 * half);
    scope.split_mut(&mut turned, 2 * half, 64 * half, &|first, rows| {
        for (index, row) in (first..).zip(rows.chunks_exact_mut(2 * half)) {
            let Rotation { frequencies, factor } = &rotations[index / positions.len()];
            let position = positions[index % positions.len()] as f32;
            let (cos, sin) = row.split_at_mut(half);
            for ((cos, sin), frequency) in cos.iter_mut().zip(sin).zip(frequencies) {
                let (of_sin, of_cos) = (position * frequency).sin_cos();
                (*sin, *cos) = (factor * of_sin, factor * of_cos);
            }
        }
    });
    turned
}
