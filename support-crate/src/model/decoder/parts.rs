//! The tensors of a decoder-only transformer, by what they do rather than by what each family calls them.

use super::quantized;
use super::stored::Stored;
use crate::error::{Context, Result};
use crate::model::weights::Slot;
use crate::model::{Architecture, DecoderConfig, NormKind, Positions, Precision, TensorInfo, TensorKind, Weights};
use crate::progress::Progress;
use crate::quant::{LayerFormat, QuantizationConfig};

/// What transformers names the module of the head.
pub(in crate::model) const HEAD: &str = "lm_head";

/// GPT-2's name of it, after the prefix.
pub(super) const POSITION_EMBEDDING: &str = "wpe.weight";

/// What transformers calls the head's weight.
const HEAD_WEIGHT: &str = "lm_head.weight";

/// Letters in shapes: V tokens in the vocabulary, C width of the hidden state, H heads, J heads of keys
/// and values, D width of a head, I width inside the feed-forward part.
#[derive(Debug)]
pub(in crate::model) struct Parts<T> {
    pub token_embedding: T,            // (V, C)
    pub position_embedding: Option<T>, // (context, C)
    pub blocks: Vec<Block<T>>,
    pub final_norm: Norm<T>,
    /// C -> V; the token embedding if the model has no separate one.
    pub head: Option<Stored<T>>,
}

#[derive(Debug)]
pub(in crate::model) struct Block<T> {
    pub attention_norm: Norm<T>,
    /// C -> (H + 2 J) D: queries, keys and values, whose outputs are joined if they are several.
    pub attention_in: Vec<Linear<T>>,
    /// H D -> C
    pub attention_out: Linear<T>,
    pub mlp_norm: Norm<T>,
    /// C -> I; the gate of a gated part.
    pub mlp_in: Linear<T>,
    /// C -> I, of a gated part only.
    pub mlp_up: Option<Linear<T>>,
    /// I -> C
    pub mlp_out: Linear<T>,
}

impl<T> Block<T> {
    pub fn linears(&self) -> impl Iterator<Item = &Linear<T>> {
        let rest = [&self.attention_out, &self.mlp_in, &self.mlp_out];
        self.attention_in.iter().chain(rest).chain(&self.mlp_up)
    }

    pub fn norms(&self) -> [&Norm<T>; 2] {
        [&self.attention_norm, &self.mlp_norm]
    }
}

/// `y = x W^T + b`
#[derive(Debug)]
pub(in crate::model) struct Linear<T> {
    /// As transformers calls it: `transformer.h.0.attn.c_attn`.
    pub name: String,
    /// (out, in)
    pub weight: Stored<T>,
    /// (out)
    pub bias: Option<T>,
}

#[derive(Debug)]
pub(in crate::model) struct Norm<T> {
    /// As transformers calls it.
    pub name: String,
    pub scale: T,         // (C)
    pub shift: Option<T>, // (C)
}

/// Where tensors are kept: a backend and its device.
pub(in crate::model) trait Memory {
    type Tensor;

    /// A tensor of this shape and format, filled by `fill`.
    ///
    /// # Errors
    /// No room for it, or what `fill` reports.
    fn tensor(
        &self,
        shape: &[usize],
        dtype: Precision,
        fill: &mut dyn FnMut(Slot<'_>) -> Result<()>,
    ) -> Result<Self::Tensor>;

    fn shape(tensor: &Self::Tensor) -> Vec<usize>;

    /// A tensor of uint8.
    ///
    /// # Errors
    /// No room for it.
    fn bytes(&self, values: &[u8], shape: &[usize]) -> Result<Self::Tensor>;
}

/// What loading has counted.
#[derive(Debug, Default)]
pub(in crate::model) struct Counts {
    pub parameters: usize,
    /// Bytes of weights, without what else quantized ones need.
    pub bytes: usize,
    /// Bytes of scales of quantized weights, and the like.
    pub quant_state: usize,
    /// Bytes of these that a step does not read: the tables that it takes single rows of, and what is only kept to
    /// be saved.
    pub unread: usize,
    /// The parameters.
    pub tensors: Vec<TensorInfo>,
}

/// Reads tensors by the names that a family has for them.
pub(in crate::model) struct Loader<'a, M> {
    pub config: &'a DecoderConfig,
    pub weights: &'a Weights,
    pub memory: &'a M,
    /// The format of what is multiplied as a matrix.
    pub dtype: Precision,
    /// The format of what is added or scaled with: what is computed in.
    pub compute: Precision,
    pub quantization: Option<&'a QuantizationConfig>,
    /// Whether kernels compute, or the backend's operations, which take quantized layers in its tensors.
    fused: bool,
    /// Whether the files hold quantized layers already.
    saved: bool,
    /// The layers that could be quantized, as transformers names them.
    modules: Vec<String>,
    /// A layer's weights while they are quantized.
    numbers: Vec<f32>,
    counts: Counts,
    prefix: &'static str,
}

impl<'a, M: Memory> Loader<'a, M> {
    pub fn new(
        config: &'a DecoderConfig,
        weights: &'a Weights,
        memory: &'a M,
        (dtype, compute): (Precision, Precision),
        quantization: Option<&'a QuantizationConfig>,
        fused: bool,
    ) -> Self {
        let with_head = config.architecture.prefix();
        // Some checkpoints are saved with the head around the model, some without.
        let first = format!("{with_head}{}", config.architecture.token_embedding());
        let prefix = if weights.contains(&first) { with_head } else { "" };
        Self {
            config,
            weights,
            memory,
            dtype,
            compute,
            quantization,
            fused,
            saved: config.quantization.is_some(),
            modules: Vec::new(),
            numbers: Vec::new(),
            counts: Counts::default(),
            prefix,
        }
    }

    /// Reads everything.
    ///
    /// # Errors
    /// A tensor that is missing or does not fit the config, by name; a module to skip that there is not.
    pub fn load(mut self) -> Result<(Parts<M::Tensor>, Counts)> {
        let (config, gpt2) = (self.config, self.config.architecture == Architecture::Gpt2);
        let (v, c) = (config.vocab_size, config.hidden_size);
        let token_embedding = self.matrix(&self.own(config.architecture.token_embedding()), v, c)?;
        let position_embedding = match config.positions {
            Positions::Learned => Some(self.matrix(&self.own(POSITION_EMBEDDING), config.context_len, c)?),
            Positions::Rotary { .. } => None,
        };
        self.counts.unread = self.counts.bytes;
        let mut progress = Progress::new("loading", config.n_layer, "layers");
        let mut blocks = Vec::new();
        for layer in 0..config.n_layer {
            blocks.push(if gpt2 { self.gpt2_block(layer)? } else { self.llama_block(layer)? });
            progress.advance(1);
        }
        let final_norm = self.norm(if gpt2 { "ln_f" } else { "norm" })?;
        let head = self.head()?;
        if head.is_none() {
            // The head reads the whole token embedding.
            self.counts.unread -= v * c * self.dtype.size_in_bytes();
        }
        if let Some(quantization) = self.quantization {
            quantization.check_modules(&self.modules)?;
        }
        Ok((Parts { token_embedding, position_embedding, blocks, final_norm, head }, self.counts))
    }

    /// A tensor's name in the files.
    fn own(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A part's name in transformers, whether or not the files have it with the prefix.
    fn module(&self, part: &str) -> String {
        format!("{}{part}", self.config.architecture.prefix())
    }

    /// A tied head that is quantized has a copy of its own; the embedding stays as it is.
    fn head(&mut self) -> Result<Option<Stored<M::Tensor>>> {
        let (v, c) = (self.config.vocab_size, self.config.hidden_size);
        let format = self.format(HEAD)?;
        let name = match self.config.tie_word_embeddings {
            true => self.own(self.config.architecture.token_embedding()),
            false => HEAD_WEIGHT.to_owned(),
        };
        // A checkpoint whose list of modules to skip leaves the head out has quantized it, unless it is tied.
        let as_saved = self.saved && self.config.tie_word_embeddings;
        match (format.filter(|_| !as_saved), self.config.tie_word_embeddings) {
            (None, true) => {
                let tied = TensorInfo::plain(HEAD_WEIGHT, TensorKind::Parameter, &[v, c], self.dtype.size_in_bytes());
                self.counts.tensors.push(TensorInfo { tied_to: Some(name), ..tied });
                Ok(None)
            }
            (None, false) => Ok(Some(Stored::Full(self.matrix(&name, v, c)?))),
            (Some(format), tied) => {
                let head = self.quantized(HEAD, &name, (v, c), false, format)?;
                Ok(Some(self.keep(HEAD_WEIGHT, head, (v, c), tied)?))
            }
        }
    }

    fn format(&self, module: &str) -> Result<Option<LayerFormat<'a>>> {
        self.quantization.map_or(Ok(None), |config| config.layer(module))
    }

    fn gpt2_block(&mut self, layer: usize) -> Result<Block<M::Tensor>> {
        let (c, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let name = |part: &str| format!("h.{layer}.{part}");
        let attention_norm = self.norm(&name("ln_1"))?;
        let attention_in = vec![self.linear(&name("attn.c_attn"), (3 * c, c), true)?];
        let attention_out = self.linear(&name("attn.c_proj"), (c, c), true)?;
        let mlp_norm = self.norm(&name("ln_2"))?;
        let mlp_in = self.linear(&name("mlp.c_fc"), (inner, c), true)?;
        let mlp_out = self.linear(&name("mlp.c_proj"), (c, inner), true)?;
        Ok(Block { attention_norm, attention_in, attention_out, mlp_norm, mlp_in, mlp_up: None, mlp_out })
    }

    fn llama_block(&mut self, layer: usize) -> Result<Block<M::Tensor>> {
        let config = self.config;
        let (c, inner, biases) = (config.hidden_size, config.intermediate_size, config.biases);
        let (queries, keys) = (config.n_head * config.head_dim, config.n_kv_head * config.head_dim);
        let name = |part: &str| format!("layers.{layer}.{part}");
        let attention_norm = self.norm(&name("input_layernorm"))?;
        let mut attention_in = Vec::new();
        for (part, rows) in [("q_proj", queries), ("k_proj", keys), ("v_proj", keys)] {
            attention_in.push(self.linear(&name(&format!("self_attn.{part}")), (rows, c), biases.attention_in)?);
        }
        let attention_out = self.linear(&name("self_attn.o_proj"), (c, queries), biases.attention_out)?;
        let mlp_norm = self.norm(&name("post_attention_layernorm"))?;
        let mlp_in = self.linear(&name("mlp.gate_proj"), (inner, c), biases.mlp)?;
        let mlp_up = Some(self.linear(&name("mlp.up_proj"), (inner, c), biases.mlp)?);
        let mlp_out = self.linear(&name("mlp.down_proj"), (c, inner), biases.mlp)?;
        Ok(Block { attention_norm, attention_in, attention_out, mlp_norm, mlp_in, mlp_up, mlp_out })
    }

    /// A linear layer of `n_out` outputs and `n_in` inputs, quantized if the configuration says so.
    fn linear(&mut self, part: &str, (n_out, n_in): (usize, usize), bias: bool) -> Result<Linear<M::Tensor>> {
        let module = self.module(part);
        let name = self.own(&format!("{part}.weight"));
        // GPT-2 stores (in, out).
        let transposed = self.config.architecture == Architecture::Gpt2;
        let weight = match self.format(&module)? {
            Some(format) => {
                let weight = self.quantized(&module, &name, (n_out, n_in), transposed, format)?;
                self.keep(&name, weight, (n_out, n_in), false)?
            }
            None if transposed => Stored::Full(self.matrix_of(&name, n_out, n_in, true)?),
            None => Stored::Full(self.matrix(&name, n_out, n_in)?),
        };
        self.modules.push(module.clone());
        let bias = if bias { Some(self.vector(&self.own(&format!("{part}.bias")), n_out)?) } else { None };
        Ok(Linear { name: module, weight, bias })
    }

    fn quantized(
        &mut self,
        module: &str,
        name: &str,
        shape: (usize, usize),
        transposed: bool,
        format: LayerFormat<'_>,
    ) -> Result<Stored<M::Tensor>> {
        let kind = (self.dtype, self.saved);
        quantized::load(self.weights, name, shape, transposed, format, kind, &mut self.numbers)
            .context(|| format!("layer `{module}`"))
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<M::Tensor> {
        self.matrix_of(name, rows, columns, false)
    }

    /// A matrix (rows, columns), which the file has the other way round if `transposed`.
    fn matrix_of(&mut self, name: &str, rows: usize, columns: usize, transposed: bool) -> Result<M::Tensor> {
        self.weights.check(name, &if transposed { [columns, rows] } else { [rows, columns] })?;
        self.count(name, &[rows, columns], self.dtype);
        self.memory.tensor(&[rows, columns], self.dtype, &mut |slot| match transposed {
            true => self.weights.read_transposed(name, columns, rows, slot),
            false => self.weights.read(name, &[rows, columns], slot),
        })
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<M::Tensor> {
        self.weights.check(name, &[len])?;
        self.count(name, &[len], self.compute);
        self.memory.tensor(&[len], self.compute, &mut |slot| self.weights.read(name, &[len], slot))
    }

    fn norm(&mut self, part: &str) -> Result<Norm<M::Tensor>> {
        let (c, name) = (self.config.hidden_size, self.own(part));
        let scale = self.vector(&format!("{name}.weight"), c)?;
        let shift = match self.config.norm {
            NormKind::Layer => Some(self.vector(&format!("{name}.bias"), c)?),
            NormKind::Rms => None,
        };
        Ok(Norm { name: self.module(part), scale, shift })
    }

    fn count(&mut self, name: &str, shape: &[usize], dtype: Precision) {
        let tensor = TensorInfo::plain(name, TensorKind::Parameter, shape, dtype.size_in_bytes());
        self.counts.parameters += tensor.numel;
        self.counts.bytes += tensor.numel * tensor.element_size;
        self.counts.tensors.push(tensor);
    }

    /// A quantized layer where it is computed with. transformers counts its weights and not their scales; of one that
    /// is a copy of a tied tensor, the memory and not the weights.
    fn keep(
        &mut self,
        name: &str,
        stored: Stored<M::Tensor>,
        (n, k): (usize, usize),
        is_copy: bool,
    ) -> Result<Stored<M::Tensor>> {
        let stored = if self.fused { stored } else { stored.into_tensors(self.memory)? };
        self.counts.parameters += if is_copy { 0 } else { n * k };
        self.counts.bytes += stored.quantized_bytes();
        self.counts.quant_state += stored.quant_state_bytes();
        self.counts.unread += stored.unread_bytes();
        let tensor = TensorInfo::plain(name, TensorKind::Parameter, &[n, k], size_of::<u8>());
        self.counts.tensors.push(TensorInfo { numel: stored.quantized_bytes(), ..tensor });
        Ok(stored)
    }
}
