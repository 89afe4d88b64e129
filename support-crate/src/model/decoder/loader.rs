//! Reads a decoder by the names that each family has for its tensors.

use super::{Block, HEAD, Linear, Matrix, Norm, POSITION_EMBEDDING, Parts, Store};
use crate::error::{Context, Result};
use crate::model::quantized::Source;
use crate::model::weights::UnreadTensor;
use crate::model::{Architecture, DecoderConfig, NormKind, Positions, Precision, TensorInfo, TensorKind, Weights};
use crate::progress::Progress;
use crate::quant::{QuantizationConfig, QuantizationMethod};

/// What transformers calls the head's weight.
const HEAD_WEIGHT: &str = "lm_head.weight";

/// What loading has counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub parameters: usize,
    /// Bytes of weights, without what else quantized ones need.
    pub bytes: usize,
    /// Those of them that are read from a mapped file.
    pub mapped: usize,
    /// Bytes of scales of quantized weights, and the like.
    pub quant_state: usize,
    /// Bytes of these that a step does not read: the tables that it takes single rows of, and what is only kept to
    /// be saved.
    pub unread: usize,
    /// The parameters.
    pub tensors: Vec<TensorInfo>,
}

pub(super) struct Loader<'a, S> {
    config: &'a DecoderConfig,
    weights: &'a Weights,
    store: &'a S,
    quantization: Option<&'a QuantizationConfig>,
    /// The precision of the model.
    dtype: Precision,
    /// [`Precision::computed_on`] the device.
    compute_dtype: Precision,
    /// Whether the files hold quantized layers already.
    saved: bool,
    /// The layers that could be quantized, as transformers names them.
    modules: Vec<String>,
    /// Weights while they are quantized.
    numbers: Vec<f32>,
    counts: Counts,
    prefix: &'static str,
}

impl<'a, S: Store> Loader<'a, S> {
    pub fn new(
        config: &'a DecoderConfig,
        weights: &'a Weights,
        store: &'a S,
        quantization: Option<&'a QuantizationConfig>,
        dtype: Precision,
        compute_dtype: Precision,
    ) -> Self {
        let with_head = config.architecture.prefix();
        // Some checkpoints are saved with the head around the model, some without.
        let first = format!("{with_head}{}", config.architecture.token_embedding());
        let prefix = if weights.contains(&first) { with_head } else { "" };
        Self {
            config,
            weights,
            store,
            quantization,
            dtype,
            compute_dtype,
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
    pub fn load(mut self) -> Result<(Parts<S>, Counts)> {
        let (config, gpt2) = (self.config, self.config.architecture == Architecture::Gpt2);
        let (v, c) = (config.vocab_size, config.hidden_size);
        let token_embedding = self.matrix(&self.own(config.architecture.token_embedding()), [v, c], false)?;
        let position_embedding = match config.positions {
            Positions::Learned => Some(self.matrix(&self.own(POSITION_EMBEDDING), [config.context_len, c], false)?),
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
    fn head(&mut self) -> Result<Option<Matrix<S>>> {
        let (v, c) = (self.config.vocab_size, self.config.hidden_size);
        let method = self.method(HEAD);
        let tied = self.config.tie_word_embeddings;
        let name = if tied { self.own(self.config.architecture.token_embedding()) } else { HEAD_WEIGHT.to_owned() };
        // A checkpoint whose list of modules to skip leaves the head out has quantized it, unless it is tied.
        let method = method.filter(|_| !(self.saved && tied));
        match method {
            Some(method) => self.quantized(HEAD, (&name, HEAD_WEIGHT), [v, c], false, method, tied).map(Some),
            None if tied => {
                let size = self.dtype.size_in_bytes();
                let head = TensorInfo::plain(HEAD_WEIGHT, TensorKind::Parameter, &[v, c], size);
                self.counts.tensors.push(TensorInfo { tied_to: Some(name), ..head });
                Ok(None)
            }
            None => Ok(Some(Matrix::Full(self.matrix(&name, [v, c], false)?))),
        }
    }

    fn method(&self, module: &str) -> Option<&'a QuantizationMethod> {
        self.quantization.and_then(|config| config.layer(module))
    }

    fn gpt2_block(&mut self, layer: usize) -> Result<Block<S>> {
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

    fn llama_block(&mut self, layer: usize) -> Result<Block<S>> {
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
    fn linear(&mut self, part: &str, (n_out, n_in): (usize, usize), bias: bool) -> Result<Linear<S>> {
        let module = self.module(part);
        let name = self.own(&format!("{part}.weight"));
        // GPT-2 stores (in, out).
        let transposed = self.config.architecture == Architecture::Gpt2;
        let weight = match self.method(&module) {
            Some(method) => self.quantized(&module, (&name, &name), [n_out, n_in], transposed, method, false)?,
            None => Matrix::Full(self.matrix(&name, [n_out, n_in], transposed)?),
        };
        self.modules.push(module.clone());
        let bias = if bias { Some(self.vector(&self.own(&format!("{part}.bias")), n_out)?) } else { None };
        Ok(Linear { name: module, shape: [n_out, n_in], weight, bias })
    }

    /// A quantized layer, read from the tensor `from` and counted as the tensor `name`. transformers counts its weights
    /// and not their scales; of one that is a copy of a tied tensor, the memory and not the weights.
    fn quantized(
        &mut self,
        module: &str,
        (from, name): (&str, &str),
        [n, k]: [usize; 2],
        transposed: bool,
        method: &QuantizationMethod,
        is_copy: bool,
    ) -> Result<Matrix<S>> {
        let tensor = UnreadTensor { weights: self.weights, name: from, shape: &[n, k], transposed };
        let compute_dtype = self.quantization.map_or(self.dtype, |config| config.compute_dtype);
        let source = Source { tensor, method, compute_dtype, dtype: self.dtype };
        let made = if self.saved { source.read() } else { source.quantize(module, &mut self.numbers) };
        let weight = made.context(|| format!("layer `{module}`"))?;
        let bytes = weight.code_bytes();
        let (matrix, state) = self.store.quantized(weight)?;
        self.counts.parameters += if is_copy { 0 } else { n * k };
        self.counts.bytes += bytes;
        self.counts.quant_state += state.all;
        self.counts.unread += state.unread;
        let tensor = TensorInfo::plain(name, TensorKind::Parameter, &[n, k], size_of::<u8>());
        self.counts.tensors.push(TensorInfo { numel: bytes, ..tensor });
        Ok(Matrix::Quantized(matrix))
    }

    /// A matrix (rows, columns), which the file has the other way round if `transposed`.
    fn matrix(&mut self, name: &str, shape: [usize; 2], transposed: bool) -> Result<S::Tensor> {
        let tensor = UnreadTensor { weights: self.weights, name, shape: &shape, transposed };
        let matrix = self.store.matrix(tensor, self.dtype)?;
        self.count(name, &shape, self.dtype);
        self.counts.mapped += S::mapped_bytes(&matrix);
        Ok(matrix)
    }

    fn vector(&mut self, name: &str, len: usize) -> Result<S::Vector> {
        self.count(name, &[len], self.compute_dtype);
        let tensor = UnreadTensor { weights: self.weights, name, shape: &[len], transposed: false };
        self.store.vector(tensor, self.compute_dtype)
    }

    fn norm(&mut self, part: &str) -> Result<Norm<S>> {
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
}
