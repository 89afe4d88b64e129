//! A decoder's weights by what they do, to be changed.

use std::sync::Arc;

use super::{Change, Rotation, Site};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::model::decoder::{HEAD, Names};
use crate::model::weights::UnreadTensor;
use crate::model::{DecoderConfig, Loaded, NormKind, Positions, Weights};

/// The weights of a decoder, before it is loaded.
pub(super) struct DecoderWeights {
    pub config: DecoderConfig,
    pub weights: Weights,
    pub names: &'static Names,
    /// What precedes the tensors' names in the files.
    prefix: &'static str,
}

impl DecoderWeights {
    pub fn new(config: DecoderConfig, weights: Weights) -> Self {
        let names = Names::of(config.architecture);
        let prefix = names.prefix_in(&weights);
        Self { config, weights, names, prefix }
    }

    /// The weights of a model as it was loaded, read again.
    ///
    /// # Errors
    /// A model that did not come from files, or whose family is not a decoder's.
    pub fn of(loaded: &Loaded) -> Result<Self> {
        let files = loaded.files.as_ref().ok_or_else(|| {
            Error::input("the model's weights cannot be read: model and tokenizer were opened separately")
                .hint("load it with `load_model`")
        })?;
        let config = DecoderConfig::read(&files.config)?;
        let weights = Weights::open(&files.weights, false)?.of_checkpoint(config.checkpoint.clone(), None);
        let (config, weights) = match &loaded.fold {
            Some(fold) => fold.apply(config, weights)?,
            None => (config, weights),
        };
        Ok(Self::new(config, weights))
    }

    /// Changes a tensor of a block, `end` being `weight` or `bias`.
    pub fn change_block(&mut self, layer: usize, part: &str, end: &str, change: Change) {
        let name = self.in_block(layer, part, end);
        self.weights.change(&name, change);
    }

    /// A layer of a block as calibration calls it.
    pub fn module(&self, layer: usize, part: &str) -> String {
        format!("{}{}{layer}.{part}", self.names.prefix, self.names.blocks)
    }

    /// The weights (out, in) of the layers of a site, one below the other.
    ///
    /// # Errors
    /// Those of reading; weights that are NaN or infinite, by layer.
    pub fn readers(&self, layer: usize, site: Site) -> Result<Vec<f32>> {
        let mut all = Vec::new();
        for part in site.readers(self) {
            let shape = [self.outputs(site, part), site.channel_of_input(&self.config).len()];
            let name = self.in_block(layer, part, "weight");
            let transposed = self.names.transposed_in(&self.weights);
            let weights = UnreadTensor { weights: &self.weights, name: &name, shape: &shape, transposed };
            weights.check()?;
            let numbers = weights.read::<f32>()?;
            if let Some(number) = numbers.iter().find(|number| !number.is_finite()) {
                return Err(Error::format(format!("tensor `{name}` holds {number}"))
                    .hint("no scales can be found for weights that are not finite"));
            }
            all.extend_from_slice(&numbers);
        }
        Ok(all)
    }

    fn outputs(&self, site: Site, part: &str) -> usize {
        let (config, names) = (&self.config, self.names);
        let (queries, keys) = (config.n_head * config.head_dim, config.n_kv_head * config.head_dim);
        match site {
            Site::AttentionIn if names.attention_in.len() == 1 => queries + 2 * keys,
            Site::AttentionIn if part == names.attention_in[0] => queries,
            Site::AttentionIn => keys,
            Site::MlpIn if config.gated => 2 * config.intermediate_size / names.mlp_in.len(),
            Site::MlpIn => config.intermediate_size,
            Site::AttentionOut | Site::MlpOut => config.hidden_size,
        }
    }

    /// A random rotation of the residual stream.
    ///
    /// # Errors
    /// A width that [`Rotation`] has no transform for.
    pub fn hadamard(&self, seed: u64) -> Result<Rotation> {
        Rotation::new(self.config.hidden_size, seed, self.config.norm == NormKind::Layer)
    }

    /// A rotation by this orthogonal matrix.
    ///
    /// # Errors
    /// One of another width; one that changes means, which layer norms subtract.
    pub fn own(&self, matrix: &[f32]) -> Result<Rotation> {
        let width = self.config.hidden_size;
        if matrix.len() != width * width {
            return Err(Error::input(format!("the rotation has {} numbers, for {width} channels", matrix.len()))
                .hint("it is a matrix of the width of the hidden state, row by row"));
        }
        let rotation = Rotation::of_matrix(matrix, width);
        if self.config.norm == NormKind::Layer && !rotation.keeps_mean() {
            return Err(Error::input("the rotation changes means, which layer norms subtract")
                .hint("the sums of its columns must all be 1, or all be -1"));
        }
        Ok(rotation)
    }

    /// Turns the residual stream; see [`Fold::hadamard`](super::Fold::hadamard).
    ///
    /// # Errors
    /// A layer norm that shifts a channel whose scale is 0.
    pub fn rotate(&mut self, rotation: Rotation) -> Result<()> {
        let (names, biases, rotation) = (self.names, self.config.biases, &Arc::new(rotation));
        let (embedding, head) = (self.outside(names.token_embedding, "weight"), format!("{HEAD}.weight"));
        if std::mem::take(&mut self.config.tie_word_embeddings) {
            self.weights.copy(&embedding, &head);
        }
        self.weights.change(&embedding, Change::RotateRows(rotation.clone()));
        if self.config.positions == Positions::Learned {
            let positions = self.outside(names.position_embedding, "weight");
            self.weights.change(&positions, Change::RotateRows(rotation.clone()));
        }
        for layer in 0..self.config.n_layer {
            for (site, norm) in [(Site::AttentionIn, names.attention_norm), (Site::MlpIn, names.mlp_norm)] {
                let readers = site.readers(self).into_iter().map(|part| self.in_block(layer, part, "weight")).collect();
                let Some(norm) = norm else { continue };
                let norm = ["weight", "bias"].map(|end| self.in_block(layer, norm, end));
                self.rotate_after(norm, readers, rotation)?;
            }
            for (part, has_bias) in [(names.attention_out, biases.attention_out), (names.mlp_out, biases.mlp)] {
                for end in ["weight", "bias"].into_iter().filter(|end| has_bias || *end == "weight") {
                    self.change_block(layer, part, end, Change::RotateColumns(rotation.clone()));
                }
            }
        }
        let norm = ["weight", "bias"].map(|end| self.outside(names.final_norm, end));
        self.rotate_after(norm, vec![head], rotation)
    }

    /// Makes the scales of a norm 1 and multiplies the weights that follow it by them, and by the rotation.
    fn rotate_after(&mut self, norm: [String; 2], readers: Vec<String>, rotation: &Arc<Rotation>) -> Result<()> {
        let [weight, bias] = norm;
        let scales: Arc<[f32]> = self.vector(&weight)?.into();
        if self.config.norm == NormKind::Layer {
            let mut shifts = self.vector(&bias)?;
            for (shift, scale) in shifts.iter_mut().zip(&*scales).filter(|(shift, _)| **shift != 0.0) {
                *shift /= scale;
            }
            if shifts.iter().any(|shift| !shift.is_finite()) {
                return Err(Error::input(format!(
                    "`{weight}` has a scale of 0, or almost, for a channel that it shifts"
                ))
                .hint("such a layer norm cannot be turned; do without the rotation"));
            }
            rotation.rows(&mut shifts);
            self.weights.change(&bias, Change::Set(shifts.into()));
        }
        self.weights.change(&weight, Change::Set(vec![1.0; scales.len()].into()));
        for reader in readers {
            self.weights.change(&reader, Change::ScaleColumns(scales.clone()));
            self.weights.change(&reader, Change::RotateRows(rotation.clone()));
        }
        Ok(())
    }

    /// The numbers of a norm as it is now.
    fn vector(&self, name: &str) -> Result<Vec<f32>> {
        let shape = [self.config.hidden_size];
        let tensor = UnreadTensor { weights: &self.weights, name, shape: &shape, transposed: false };
        tensor.check()?;
        tensor.read().map(Buffer::into_vec)
    }

    fn in_block(&self, layer: usize, part: &str, end: &str) -> String {
        self.outside(&format!("{}{layer}.{part}", self.names.blocks), end)
    }

    fn outside(&self, part: &str, end: &str) -> String {
        format!("{}{part}.{end}", self.prefix)
    }
}
