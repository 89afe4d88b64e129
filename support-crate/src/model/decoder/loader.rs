//! Reads a decoder by the names that each family has for its tensors.

use super::names::HEAD_WEIGHT;
use super::{Block, HEAD, Linear, Matrix, Names, Norm, Parts, Store};
use crate::error::{Context, Result};
use crate::model::quantized::{Int4Matrix, QuantizedWeight, Source, of_blocks};
use crate::model::weights::UnreadTensor;
use crate::model::{DecoderConfig, NormKind, Positions, Precision, QkNorm, TensorInfo, TensorKind, Weights};
use crate::progress::Progress;
use crate::quant::{QuantizationConfig, QuantizationMethod};

/// What loading has counted.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub parameters: usize,
    /// Bytes of weights, without what quantized ones need besides.
    pub bytes: usize,
    /// Those of them that are read from a mapped file.
    pub mapped: usize,
    /// Bytes of scales of quantized weights, and the like.
    pub quant_state: usize,
    /// How many of all these bytes a step does not read: the tables that it takes single rows from, and what is kept
    /// only to be saved.
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
    names: &'static Names,
    /// What precedes the tensors' names in these files.
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
        let names = Names::of(config.architecture);
        let prefix = names.prefix_in(weights);
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
            names,
            prefix,
        }
    }

    /// Reads everything.
    ///
    /// # Errors
    /// A tensor that is missing or does not fit the config, by name; a module that is to be skipped here and does not
    /// exist.
    pub fn load(mut self) -> Result<(Parts<S>, Counts)> {
        let (config, names) = (self.config, self.names);
        let (v, c) = (config.vocab_size, config.hidden_size);
        let token_embedding = self.table(&self.weight(names.token_embedding), [v, c])?;
        let position_embedding = match config.positions {
            Positions::Learned => {
                Some(self.matrix(&self.weight(names.position_embedding), [config.context_len, c], false)?)
            }
            Positions::Rotary { .. } => None,
        };
        self.counts.unread = self.counts.bytes;
        let mut progress = Progress::new("loading", config.n_layer, "layers");
        let mut blocks = Vec::new();
        for layer in 0..config.n_layer {
            blocks.push(self.block(layer)?);
            progress.advance(1);
        }
        let final_norm = self.norm(names.final_norm, c, true)?;
        let head = self.head()?;
        if head.is_none() {
            // The head reads the whole token embedding.
            self.counts.unread -= v * c * self.dtype.size_in_bytes();
        }
        // Lists in checkpoints may name parts that only a larger model has.
        if let Some(quantization) = self.quantization.filter(|_| !self.saved) {
            quantization.check_modules(&self.modules)?;
        }
        Ok((Parts { token_embedding, position_embedding, blocks, final_norm, head }, self.counts))
    }

    /// The name of a part's weight in the files.
    fn weight(&self, part: &str) -> String {
        format!("{}{part}.weight", self.prefix)
    }

    /// A part's name in transformers, whether or not the files have it with the prefix.
    fn module(&self, part: &str) -> String {
        format!("{}{part}", self.names.prefix)
    }

    /// A tied head that is quantized has a copy of its own; the embedding stays as it is.
    fn head(&mut self) -> Result<Option<Matrix<S>>> {
        let (v, c) = (self.config.vocab_size, self.config.hidden_size);
        let tied = self.config.tie_word_embeddings;
        let name = if tied { self.weight(self.names.token_embedding) } else { HEAD_WEIGHT.to_owned() };
        let method = self.method(HEAD, &name);
        // In a checkpoint whose list of modules to skip does not name the head, the head is quantized, unless it is
        // tied.
        let method = method.filter(|_| !(self.saved && tied));
        match method {
            Some(method) => self.quantized(HEAD, (&name, HEAD_WEIGHT), [v, c], false, method, tied).map(Some),
            None if self.is_in_blocks(&name, [v, c])? => {
                self.blocks(HEAD, (&name, HEAD_WEIGHT), [v, c], tied).map(Some)
            }
            None if tied => {
                let size = self.dtype.size_in_bytes();
                let head = TensorInfo::plain(HEAD_WEIGHT, TensorKind::Parameter, &[v, c], size);
                self.counts.tensors.push(TensorInfo { tied_to: Some(name), ..head });
                Ok(None)
            }
            None => {
                let is_packed = self.weights.is_packed(&name);
                let packed = if is_packed { self.packed(HEAD, &name, [v, c])? } else { None };
                packed.map_or_else(|| self.matrix(&name, [v, c], false).map(Matrix::Full), Ok).map(Some)
            }
        }
    }

    /// How a layer is quantized. In a checkpoint of bitsandbytes its tensor decides, where the list of layers to skip
    /// can be read in several ways.
    fn method(&self, module: &str, name: &str) -> Option<&'a QuantizationMethod> {
        let quantization = self.quantization?;
        match self.saved {
            false => quantization.layer(module),
            true if self.weights.has_codes(name) => Some(quantization.layer(module).unwrap_or(&quantization.method)),
            true => quantization.layer(module).filter(|_| !quantization.may_skip(module)),
        }
    }

    fn block(&mut self, layer: usize) -> Result<Block<S>> {
        let (config, names) = (self.config, self.names);
        let (c, inner, biases) = (config.hidden_size, config.intermediate_size, config.biases);
        let (queries, keys) = (config.n_head * config.head_dim, config.n_kv_head * config.head_dim);
        let name = |part: &str| format!("{}{layer}.{part}", names.blocks);
        let attention_norm = names.attention_norm.map(|part| self.norm(&name(part), c, true)).transpose()?;
        let outputs = if names.attention_in.len() == 1 { vec![queries + 2 * keys] } else { vec![queries, keys, keys] };
        let mut attention_in = Vec::new();
        for (part, rows) in names.attention_in.iter().zip(outputs) {
            attention_in.push(self.linear(&name(part), (rows, c), biases.attention_in)?);
        }
        let [q, k] = names.qk_norms.map(name);
        let qk_norms = match config.qk_norm {
            Some(kind) => {
                Some([self.head_norms(kind, &q, config.n_head)?, self.head_norms(kind, &k, config.n_kv_head)?])
            }
            None => None,
        };
        let attention_out = self.linear(&name(names.attention_out), (c, queries), biases.attention_out)?;
        let attention_post_norm = names.attention_post_norm.map(|part| self.norm(&name(part), c, true)).transpose()?;
        let mlp_norm = names.mlp_norm.filter(|_| !config.parallel_residual);
        let mlp_norm = mlp_norm.map(|part| self.norm(&name(part), c, true)).transpose()?;
        let rows = if config.gated { 2 * inner / names.mlp_in.len() } else { inner };
        let mut mlp_in = Vec::new();
        for part in names.mlp_in {
            mlp_in.push(self.linear(&name(part), (rows, c), biases.mlp)?);
        }
        let mlp_out = self.linear(&name(names.mlp_out), (c, inner), biases.mlp)?;
        let mlp_post_norm = names.mlp_post_norm.map(|part| self.norm(&name(part), c, true)).transpose()?;
        Ok(Block {
            attention_norm,
            attention_in,
            qk_norms,
            attention_out,
            attention_post_norm,
            mlp_norm,
            mlp_in,
            mlp_out,
            mlp_post_norm,
        })
    }

    /// A linear layer of `n_out` outputs and `n_in` inputs, quantized if the configuration says so.
    fn linear(&mut self, part: &str, (n_out, n_in): (usize, usize), bias: bool) -> Result<Linear<S>> {
        let module = self.module(part);
        let (name, transposed) = (self.weight(part), self.names.transposed_in(self.weights));
        let weight = match self.method(&module, &name) {
            Some(method) => self.quantized(&module, (&name, &name), [n_out, n_in], transposed, method, false)?,
            None => match self.packed(&module, &name, [n_out, n_in])? {
                Some(matrix) => matrix,
                None if !transposed && self.is_in_blocks(&name, [n_out, n_in])? => {
                    self.blocks(&module, (&name, &name), [n_out, n_in], false)?
                }
                None => Matrix::Full(self.matrix(&name, [n_out, n_in], transposed)?),
            },
        };
        self.modules.push(module.clone());
        let bias = if bias { Some(self.vector(&format!("{}{part}.bias", self.prefix), n_out)?) } else { None };
        Ok(Linear { name: module, shape: [n_out, n_in], weight, bias })
    }

    /// A quantized layer, read from the tensor `from` and counted as the tensor `name`. transformers counts its weights
    /// but not their scales; for a copy of a tied tensor, the memory but not the weights.
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
        self.hold(made.context(|| format!("layer `{module}`"))?, name, is_copy)
    }

    /// A layer as a checkpoint of others stores it, if it can stay so.
    fn packed(&mut self, module: &str, name: &str, shape: [usize; 2]) -> Result<Option<Matrix<S>>> {
        let layer = || format!("layer `{module}`");
        let Some((packed, group)) = self.weights.int4((module, name), shape).context(layer)? else { return Ok(None) };
        // As transformers, which multiplies in the precision of the model.
        let matrix = Int4Matrix::of_checkpoint(&packed, group, self.dtype).context(layer)?;
        self.hold(Box::new(matrix), name, false).map(Some)
    }

    /// A quantized layer as the blocks of a GGUF file, counted as [`quantized`](Self::quantized) counts.
    fn blocks(
        &mut self,
        module: &str,
        (from, name): (&str, &str),
        shape: [usize; 2],
        is_copy: bool,
    ) -> Result<Matrix<S>> {
        let (rows, check_finite) = self.weights.blocks(from, shape)?;
        // What a copy is of was checked.
        let weight = of_blocks(rows, check_finite && !is_copy).context(|| format!("layer `{module}`"))?;
        let mapped = weight.mapped_bytes();
        if !is_copy || mapped == 0 {
            self.counts.mapped += mapped;
            return self.hold(weight, name, is_copy);
        }
        // It is no copy, but the same bytes of the file; a step reads all of them.
        self.counts.unread -= mapped;
        self.counts.tensors.push(TensorInfo { tied_to: Some(from.to_owned()), ..stored(name, shape, mapped) });
        self.store.quantized(weight).map(|(matrix, _)| Matrix::Quantized(matrix))
    }

    fn hold(&mut self, weight: Box<dyn QuantizedWeight>, name: &str, is_copy: bool) -> Result<Matrix<S>> {
        let ([n, k], bytes) = (weight.shape(), weight.code_bytes());
        let (matrix, state) = self.store.quantized(weight)?;
        self.counts.parameters += if is_copy { 0 } else { n * k };
        self.counts.quant_state += state.all;
        self.counts.unread += state.unread;
        self.count_bytes(name, [n, k], bytes);
        Ok(Matrix::Quantized(matrix))
    }

    /// Whether a matrix is in the blocks of a GGUF file, and stays so.
    fn is_in_blocks(&self, name: &str, shape: [usize; 2]) -> Result<bool> {
        Ok(self.store.keep_blocks().is_some() && self.weights.is_in_blocks(name, shape)?)
    }

    /// A matrix of which single rows are wanted.
    fn table(&mut self, name: &str, shape: [usize; 2]) -> Result<S::Tensor> {
        match self.store.keep_blocks() {
            Some(keep) if self.weights.is_in_blocks(name, shape)? => {
                let (rows, check_finite) = self.weights.blocks(name, shape)?;
                if check_finite {
                    rows.check_finite().context(|| format!("tensor `{name}`"))?;
                }
                let (bytes, mapped) = rows.bytes();
                self.counts.parameters += shape[0] * shape[1];
                self.counts.mapped += mapped;
                self.count_bytes(name, shape, bytes);
                Ok(keep(rows))
            }
            _ => self.matrix(name, shape, false),
        }
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

    /// The norms of the queries, or of the keys, of so many heads. They have no shifts.
    fn head_norms(&mut self, kind: QkNorm, part: &str, heads: usize) -> Result<Vec<Norm<S>>> {
        let d = self.config.head_dim;
        match kind {
            QkNorm::OneForAllHeads => Ok(vec![self.norm(part, d, false)?]),
            QkNorm::OverAllHeads => Ok(vec![self.norm(part, heads * d, false)?]),
            QkNorm::OneForEachHead => {
                (0..heads).map(|head| self.norm(&format!("{part}.norms.{head}"), d, false)).collect()
            }
        }
    }

    /// The numbers of a norm of rows of `width`; only layer norms have shifts.
    fn norm(&mut self, part: &str, width: usize, has_shift: bool) -> Result<Norm<S>> {
        let name = format!("{}{part}", self.prefix);
        let scale = self.vector(&format!("{name}.weight"), width)?;
        let shift = match self.config.norm {
            NormKind::Layer if has_shift => Some(self.vector(&format!("{name}.bias"), width)?),
            _ => None,
        };
        Ok(Norm { name: self.module(part), width, scale, shift })
    }

    /// Counts a tensor as what stores it, which is not a number each.
    fn count_bytes(&mut self, name: &str, shape: [usize; 2], bytes: usize) {
        self.counts.bytes += bytes;
        self.counts.tensors.push(stored(name, shape, bytes));
    }

    fn count(&mut self, name: &str, shape: &[usize], dtype: Precision) {
        let tensor = TensorInfo::plain(name, TensorKind::Parameter, shape, dtype.size_in_bytes());
        self.counts.parameters += tensor.numel;
        self.counts.bytes += tensor.numel * tensor.element_size;
        self.counts.tensors.push(tensor);
    }
}

/// A matrix that so many bytes store.
fn stored(name: &str, shape: [usize; 2], bytes: usize) -> TensorInfo {
    TensorInfo { numel: bytes, ..TensorInfo::plain(name, TensorKind::Parameter, &shape, size_of::<u8>()) }
}
