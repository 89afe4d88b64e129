//! GPT-2 on candle, in one sitting.
//!
//! Letters in shapes: B sequences, T new tokens of each, C width of the hidden state, H heads, D width
//! of a head (C = H D), S tokens seen so far (cache and new), V tokens in the vocabulary.
//!
//! Source: Radford et al. 2019; `GPT2LMHeadModel` in transformers `models/gpt2/modeling_gpt2.py`.

use std::any::Any;

use candle_core::{DType, Device as CandleDevice, Tensor};

use super::kernels::Visible;
use super::ops::{LayerNorm, Linear, activate, add, attend};
use super::{Activation, CausalLm, Device, Gpt2Config, Logits, ModelInfo, Precision, Step, Weights};
use crate::error::{Error, Result};

/// GPT-2 with its weights on a device.
#[derive(Debug)]
pub struct Gpt2 {
    info: ModelInfo,
    config: Gpt2Config,
    device: CandleDevice,
    /// What is computed in: float32 on a CPU, the format of the weights elsewhere.
    compute: DType,
    token_embedding: Tensor,    // (V, C)
    position_embedding: Tensor, // (n_positions, C)
    blocks: Vec<Block>,
    final_norm: LayerNorm,
    head: Linear, // C -> V
}

#[derive(Debug)]
struct Block {
    attention_norm: LayerNorm,
    attention_in: Linear,  // C -> 3C: queries, keys and values
    attention_out: Linear, // C -> C
    attention_scale: f32,
    mlp_norm: LayerNorm,
    mlp_in: Linear,  // C -> n_inner
    mlp_out: Linear, // n_inner -> C
    activation: Activation,
}

/// Keys and values of one layer: (B, H, capacity, D) each.
struct LayerCache {
    k: Tensor,
    v: Tensor,
}

impl Gpt2 {
    /// Loads the weights.
    ///
    /// # Errors
    /// A tensor that is missing or has another shape than the config says, by name; a device that this
    /// build cannot use.
    pub fn load(config: Gpt2Config, weights: &Weights, dtype: Precision, device: Device) -> Result<Self> {
        let loader = Loader::new(weights, dtype, device)?;
        let c = config.n_embd;
        let token_embedding = loader.tensor("wte.weight", &[config.vocab_size, c])?;
        let position_embedding = loader.tensor("wpe.weight", &[config.n_positions, c])?;
        let blocks = (0..config.n_layer).map(|layer| loader.block(&config, layer)).collect::<Result<Vec<_>>>()?;
        let final_norm = loader.norm(&config, "ln_f")?;
        let tied = config.tie_word_embeddings;
        let head_weight =
            if tied { token_embedding.clone() } else { loader.exactly("lm_head.weight", &[config.vocab_size, c])? };
        let head = Linear::without_bias(head_weight, loader.compute)?;
        let mut model = Self {
            info: info(&config, dtype, device),
            device: loader.device,
            compute: loader.compute,
            config,
            token_embedding,
            position_embedding,
            blocks,
            final_norm,
            head,
        };
        model.count_memory(tied);
        Ok(model)
    }

    /// Numbers and bytes of all weights; a tied head is the token embedding and counts once.
    fn count_memory(&mut self, tied: bool) {
        let mut tensors =
            vec![&self.token_embedding, &self.position_embedding, &self.final_norm.scale, &self.final_norm.shift];
        tensors.extend(self.blocks.iter().flat_map(Block::tensors));
        if !tied {
            tensors.extend(self.head.tensors());
        }
        let count = tensors.iter().map(|tensor| tensor.elem_count()).sum();
        let bytes = tensors.iter().map(|tensor| tensor.elem_count() * tensor.dtype().size_in_bytes()).sum();
        (self.info.num_parameters, self.info.parameter_bytes) = (count, bytes);
    }

    /// The sum of each token's embedding and its position's: (B T, C).
    fn embed(&self, step: &Step<'_>) -> Result<Tensor> {
        let ids = Tensor::new(step.ids, &self.device)?;
        let positions = Tensor::new(step.position_ids, &self.device)?;
        let tokens = self.token_embedding.index_select(&ids, 0)?.to_dtype(self.compute)?;
        let positions = self.position_embedding.index_select(&positions, 0)?.to_dtype(self.compute)?;
        add(tokens, &positions)
    }
}

impl CausalLm for Gpt2 {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.device.synchronize()?)
    }

    fn compute(&self, step: &Step<'_>, storage: Option<&mut (dyn Any + Send + Sync)>) -> Result<Logits> {
        let mut layers = storage.map(|storage| cache_of(storage, self.config.n_layer)).transpose()?;
        let mut x = self.embed(step)?; // (B T, C)
        for (i, block) in self.blocks.iter().enumerate() {
            let cache = layers.as_mut().map(|layers| &mut layers[i]);
            x = block.forward(&x, step, self.config.n_head, cache)?;
        }
        if let Some(wanted) = &step.wanted {
            x = x.index_select(&Tensor::new(wanted.as_slice(), &self.device)?, 0)?;
        }
        let logits = self.head.forward(&self.final_norm.forward(&x)?)?; // (B T or B, V)
        let values = logits.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
        Logits::new(values, step.batch, self.config.vocab_size)
    }

    fn allocate_cache(&self, batch: usize, capacity: usize) -> Result<Box<dyn Any + Send + Sync>> {
        let shape = (batch, self.config.n_head, capacity, self.config.n_embd / self.config.n_head);
        let zeros = || Tensor::zeros(shape, self.compute, &self.device);
        let layers = (0..self.config.n_layer).map(|_| Ok(LayerCache { k: zeros()?, v: zeros()? }));
        Ok(Box::new(layers.collect::<Result<Vec<LayerCache>>>()?))
    }

    fn retain_rows(&self, storage: &mut (dyn Any + Send + Sync), rows: &[usize], _past_len: usize) -> Result<()> {
        let rows: Vec<u32> = rows.iter().map(|&row| row as u32).collect();
        let rows = Tensor::new(rows, &self.device)?;
        for layer in cache_of(storage, self.config.n_layer)? {
            layer.k = layer.k.index_select(&rows, 0)?;
            layer.v = layer.v.index_select(&rows, 0)?;
        }
        Ok(())
    }
}

impl Block {
    /// `x` (B T, C) to the same shape.
    fn forward(&self, x: &Tensor, step: &Step<'_>, heads: usize, cache: Option<&mut LayerCache>) -> Result<Tensor> {
        let attended = self.attention(&self.attention_norm.forward(x)?, step, heads, cache)?;
        let x = add(attended, x)?;
        let inner = self.mlp_in.forward(&self.mlp_norm.forward(&x)?)?; // (B T, n_inner)
        let inner = activate(inner, self.activation)?;
        add(self.mlp_out.forward(&inner)?, &x)
    }

    fn attention(&self, x: &Tensor, step: &Step<'_>, heads: usize, cache: Option<&mut LayerCache>) -> Result<Tensor> {
        let (b, t, c) = (step.batch, step.seq_len, x.dim(1)?);
        let qkv = self.attention_in.forward(x)?.reshape((b, t, 3, heads, c / heads))?;
        let part = |index: usize| qkv.narrow(2, index, 1)?.squeeze(2)?.transpose(1, 2); // (B, H, T, D)
        let (q, k, v) = (part(0)?, part(1)?.contiguous()?, part(2)?.contiguous()?);
        let (k, v) = match cache {
            Some(cache) => {
                cache.k.slice_set(&k, 2, step.past_len)?;
                cache.v.slice_set(&v, 2, step.past_len)?;
                (&cache.k, &cache.v) // (B, H, capacity, D)
            }
            None => (&k, &v),
        };
        let visible = Visible { past_len: step.past_len, queries: t, heads, key_mask: step.key_mask };
        let y = attend(&q, k, v, self.attention_scale, visible)?; // (B, H, T, D)
        self.attention_out.forward(&y.transpose(1, 2)?.reshape((b * t, c))?)
    }

    fn tensors(&self) -> Vec<&Tensor> {
        let norms = [&self.attention_norm, &self.mlp_norm].into_iter().flat_map(|norm| [&norm.scale, &norm.shift]);
        let linears = [&self.attention_in, &self.attention_out, &self.mlp_in, &self.mlp_out];
        norms.chain(linears.into_iter().flat_map(Linear::tensors)).collect()
    }
}

/// Reads tensors by their names without the prefix that only some checkpoints have.
struct Loader<'a> {
    weights: &'a Weights,
    prefix: &'static str,
    dtype: DType,
    compute: DType,
    device: CandleDevice,
}

impl<'a> Loader<'a> {
    fn new(weights: &'a Weights, dtype: Precision, device: Device) -> Result<Self> {
        let prefix = if weights.contains("transformer.wte.weight") { "transformer." } else { "" };
        let dtype = dtype.to_candle();
        let compute = if device.is_cpu() { DType::F32 } else { dtype };
        if device.is_cpu() && dtype == DType::F16 {
            return Err(Error::input("float16 weights cannot be computed with on a CPU").hint("ask `resolve_dtype`"));
        }
        Ok(Self { weights, prefix, dtype, compute, device: device.to_candle()? })
    }

    fn exactly(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.weights.load(name, shape, self.dtype, &self.device)
    }

    fn tensor(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        self.exactly(&format!("{}{name}", self.prefix), shape)
    }

    /// What is added or scaled with, and not multiplied as a matrix, is kept in what is computed in.
    fn vector(&self, name: &str, len: usize) -> Result<Tensor> {
        self.weights.load(&format!("{}{name}", self.prefix), &[len], self.compute, &self.device)
    }

    fn linear(&self, name: &str, n_in: usize, n_out: usize) -> Result<Linear> {
        let weight_name = format!("{}{name}.weight", self.prefix);
        let weight = self.weights.load_transposed(&weight_name, n_in, n_out, self.dtype, &self.device)?;
        Ok(Linear::new(weight, self.vector(&format!("{name}.bias"), n_out)?))
    }

    fn norm(&self, config: &Gpt2Config, name: &str) -> Result<LayerNorm> {
        Ok(LayerNorm {
            scale: self.vector(&format!("{name}.weight"), config.n_embd)?,
            shift: self.vector(&format!("{name}.bias"), config.n_embd)?,
            epsilon: config.layer_norm_epsilon,
        })
    }

    fn block(&self, config: &Gpt2Config, layer: usize) -> Result<Block> {
        let (c, inner) = (config.n_embd, config.n_inner);
        let by_head = if config.scale_attn_weights { ((c / config.n_head) as f32).sqrt() } else { 1.0 };
        let by_layer = if config.scale_attn_by_inverse_layer_idx { (layer + 1) as f32 } else { 1.0 };
        let name = |part: &str| format!("h.{layer}.{part}");
        Ok(Block {
            attention_norm: self.norm(config, &name("ln_1"))?,
            attention_in: self.linear(&name("attn.c_attn"), c, 3 * c)?,
            attention_out: self.linear(&name("attn.c_proj"), c, c)?,
            attention_scale: 1.0 / (by_head * by_layer),
            mlp_norm: self.norm(config, &name("ln_2"))?,
            mlp_in: self.linear(&name("mlp.c_fc"), c, inner)?,
            mlp_out: self.linear(&name("mlp.c_proj"), inner, c)?,
            activation: config.activation,
        })
    }
}

fn info(config: &Gpt2Config, dtype: Precision, device: Device) -> ModelInfo {
    ModelInfo {
        architecture: "gpt2",
        backend: "candle",
        device,
        dtype,
        vocab_size: config.vocab_size,
        context_len: config.n_positions,
        n_layer: config.n_layer,
        n_head: config.n_head,
        hidden_size: config.n_embd,
        eos_token_id: config.eos_token_id,
        num_parameters: 0,
        parameter_bytes: 0,
        // A causal mask of booleans and one number, for each block.
        buffer_bytes: config.n_layer * (config.n_positions * config.n_positions + dtype.size_in_bytes()),
    }
}

fn cache_of(storage: &mut (dyn Any + Send + Sync), n_layer: usize) -> Result<&mut Vec<LayerCache>> {
    let layers = storage.downcast_mut::<Vec<LayerCache>>().filter(|layers| layers.len() == n_layer);
    layers.ok_or_else(|| {
        Error::input("the cache was made for another model").hint("make it with this model's `new_cache`")
    })
}
