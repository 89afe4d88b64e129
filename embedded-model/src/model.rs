//! GPT-2, with the names and layouts of Hugging Face: weights of linear layers are `[in, out]`, the
//! embedding is also the output head, and the activation is GELU in its tanh form.

use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use tch::{Device, Kind, Tensor, no_grad};

use crate::quantize::Format;

/// The sizes of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Tokens in the vocabulary.
    pub vocabulary: i64,
    /// The longest text, in tokens.
    pub positions: i64,
    /// Numbers per token.
    pub width: i64,
    /// Blocks of attention and perceptron.
    pub layers: i64,
    /// Attention heads per block.
    pub heads: i64,
}

impl Shape {
    /// The model that ships with the library: 4.3 million parameters.
    pub const EMBEDDED: Self =
        Self { vocabulary: crate::tokenizer::VOCABULARY as i64, positions: 512, width: 256, layers: 4, heads: 4 };

    /// Every parameter's name and dimensions, in the order of the model.
    pub fn parameters(&self) -> Vec<(String, Vec<i64>)> {
        let width = self.width;
        let mut list = vec![
            ("transformer.wte.weight".to_owned(), vec![self.vocabulary, width]),
            ("transformer.wpe.weight".to_owned(), vec![self.positions, width]),
        ];
        for layer in 0..self.layers {
            for (name, dimensions) in [
                ("ln_1.weight", vec![width]),
                ("ln_1.bias", vec![width]),
                ("attn.c_attn.weight", vec![width, 3 * width]),
                ("attn.c_attn.bias", vec![3 * width]),
                ("attn.c_proj.weight", vec![width, width]),
                ("attn.c_proj.bias", vec![width]),
                ("ln_2.weight", vec![width]),
                ("ln_2.bias", vec![width]),
                ("mlp.c_fc.weight", vec![width, 4 * width]),
                ("mlp.c_fc.bias", vec![4 * width]),
                ("mlp.c_proj.weight", vec![4 * width, width]),
                ("mlp.c_proj.bias", vec![width]),
            ] {
                list.push((format!("transformer.h.{layer}.{name}"), dimensions));
            }
        }
        list.push(("transformer.ln_f.weight".to_owned(), vec![width]));
        list.push(("transformer.ln_f.bias".to_owned(), vec![width]));
        list
    }
}

/// A model: its shape and its parameters.
pub struct Model {
    shape: Shape,
    parameters: Vec<(String, Tensor)>,
    /// What the linear layers' inputs are rounded for.
    format: Option<Format>,
}

const TOKEN_EMBEDDING: usize = 0;
const POSITION_EMBEDDING: usize = 1;
const FIRST_LAYER: usize = 2;
const PER_LAYER: usize = 12;
/// Attention is computed for this many tokens of a text at a time.
const QUERIES_AT_ONCE: i64 = 256;

impl Model {
    /// Draws new parameters as GPT-2 does: normal with 0.02, smaller where a block ends.
    pub fn new(shape: Shape, seed: i64, device: Device) -> Self {
        let residual = 0.02 / (2.0 * shape.layers as f64).sqrt();
        let draw = |(name, dimensions): (String, Vec<i64>)| {
            let options = (Kind::Float, Device::Cpu);
            let tensor = if name.ends_with("bias") {
                Tensor::zeros(&dimensions, options)
            } else if dimensions.len() == 1 {
                Tensor::ones(&dimensions, options)
            } else if name.ends_with("c_proj.weight") {
                Tensor::randn(&dimensions, options) * residual
            } else {
                Tensor::randn(&dimensions, options) * 0.02
            };
            // Drawn on the CPU also for other devices, so that the seed means the same everywhere.
            (name, tensor.to_device(device).set_requires_grad(true))
        };
        let parameters = seeded(seed, || shape.parameters().into_iter().map(draw).collect());
        Self { shape, parameters, format: None }
    }

    /// Takes parameters by name, in any order and of any floating kind.
    pub fn from_tensors(shape: Shape, tensors: &[(String, Tensor)], device: Device) -> Result<Self> {
        let mut parameters = Vec::new();
        for (name, dimensions) in shape.parameters() {
            let found = tensors.iter().find(|(other, _)| *other == name);
            let (_, tensor) = found.with_context(|| format!("the weights lack {name}"))?;
            ensure!(tensor.size() == dimensions, "{name} is {:?}, not {dimensions:?}", tensor.size());
            let tensor = tensor.to_device(device).to_kind(Kind::Float).detach().copy();
            parameters.push((name, tensor.set_requires_grad(true)));
        }
        if tensors.len() != parameters.len() {
            bail!("the weights have {} tensors, not {}", tensors.len(), parameters.len());
        }
        Ok(Self { shape, parameters, format: None })
    }

    /// The same model with the linear layers of its blocks rounded. Gradients pass to this model's parameters
    /// as if their rounding were not there (straight-through estimator, Bengio et al. 2013, arXiv:1308.3432).
    /// The rounding of inputs, for int8, lets none pass: that is for measuring.
    pub fn rounded(&self, format: Format) -> Self {
        let round = |(name, tensor): &(String, Tensor)| {
            let tensor = if is_hidden_matrix(name, tensor) {
                tensor + no_grad(|| format.round_weight(tensor) - tensor)
            } else {
                tensor.shallow_clone()
            };
            (name.clone(), tensor)
        };
        let parameters = self.parameters.iter().map(round).collect();
        Self { shape: self.shape, parameters, format: Some(format) }
    }

    /// The sizes of the model.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The parameters by name.
    pub fn parameters(&self) -> &[(String, Tensor)] {
        &self.parameters
    }

    /// How many numbers the model has.
    pub fn size(&self) -> usize {
        self.parameters.iter().map(|(_, tensor)| tensor.numel()).sum()
    }

    /// The logits of the next token after each token of `[batch, length]`, as `[batch * length, vocabulary]`.
    /// Matrix products are computed in `kind`; sums, norms and the result stay in float32 or what `kind` is.
    pub fn logits(&self, tokens: &Tensor, kind: Kind) -> Tensor {
        let (batch, length) = tokens.size2().unwrap_or((1, tokens.numel() as i64));
        let width = self.shape.width;
        let at = |index: usize| &self.parameters[index].1;
        let positions = at(POSITION_EMBEDDING).narrow(0, 0, length);
        let embedded = Tensor::embedding(at(TOKEN_EMBEDDING), tokens, -1, false, false);
        let mut x = (embedded + positions).reshape([batch * length, width]);
        for layer in 0..self.shape.layers as usize {
            let part = |offset: usize| at(FIRST_LAYER + PER_LAYER * layer + offset);
            let normed = norm(&x, part(0), part(1));
            let attended = self.attention(&self.linear(&normed, part(2), part(3), kind), batch, length);
            x = self.linear(&attended, part(4), part(5), kind) + x;
            let normed = norm(&x, part(6), part(7));
            let hidden = self.linear(&normed, part(8), part(9), kind).gelu("tanh");
            x = self.linear(&hidden, part(10), part(11), kind) + x;
        }
        let last = FIRST_LAYER + PER_LAYER * self.shape.layers as usize;
        let normed = norm(&x, at(last), at(last + 1));
        normed.to_kind(kind).matmul(&at(TOKEN_EMBEDDING).to_kind(kind).tr())
    }

    /// The mean cross-entropy of `targets`, in nats per token.
    pub fn loss(&self, tokens: &Tensor, targets: &Tensor, kind: Kind) -> Tensor {
        let logits = self.logits(tokens, kind);
        // Cast before, because the combined cast and softmax is slow on a CPU.
        let logits = logits.to_kind(Kind::Float);
        logits.cross_entropy_for_logits(&targets.reshape([-1]))
    }

    fn linear(&self, x: &Tensor, weight: &Tensor, bias: &Tensor, kind: Kind) -> Tensor {
        let x = self.format.map_or_else(|| x.shallow_clone(), |format| format.round_input(x));
        let (x, weight, bias) = (x.to_kind(kind), weight.to_kind(kind), bias.to_kind(kind));
        bias.addmm(&x, &weight)
    }

    fn attention(&self, qkv: &Tensor, batch: i64, length: i64) -> Tensor {
        let (heads, width) = (self.shape.heads, self.shape.width);
        let parts = qkv.reshape([batch, length, 3, heads, width / heads]);
        let part = |index| parts.select(2, index).transpose(1, 2);
        let (query, key, value) = (part(0), part(1), part(2));
        let attended = if qkv.device().is_cuda() {
            let none = None::<Tensor>;
            Tensor::scaled_dot_product_attention(&query, &key, &value, none, 0.0, true, None, false)
        } else {
            causal_attention(&query, &key, &value)
        };
        attended.transpose(1, 2).reshape([batch * length, width])
    }
}

/// Attention written out in matrix products. On a CPU in bfloat16 it is three times as fast as the
/// fused operation, whose own products do not use the processor's instructions for that kind.
fn causal_attention(query: &Tensor, key: &Tensor, value: &Tensor) -> Tensor {
    let (kind, device) = (query.kind(), query.device());
    let size = query.size();
    let (length, width) = (size[2], size[3]);
    let query = query * (1.0 / (width as f64).sqrt());
    let attended: Vec<Tensor> = (0..length)
        .step_by(QUERIES_AT_ONCE as usize)
        .map(|start| {
            // What lies after the last of these queries need not be looked at.
            let count = QUERIES_AT_ONCE.min(length - start);
            let end = start + count;
            let future = Tensor::full([count, end], f64::NEG_INFINITY, (kind, device));
            let scores = query.narrow(2, start, count).matmul(&key.narrow(2, 0, end).transpose(-2, -1));
            let weights = (scores + future.triu(start + 1)).softmax(-1, kind);
            weights.matmul(&value.narrow(2, 0, end))
        })
        .collect();
    Tensor::cat(&attended, 2)
}

fn norm(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
    x.layer_norm(weight.size(), Some(weight), Some(bias), 1e-5, true)
}

/// What `draw` draws from libtorch's random numbers, which begin with `seed`. All threads share them, so that only one
/// draws at a time.
pub fn seeded<T>(seed: i64, draw: impl FnOnce() -> T) -> T {
    static DRAWS: Mutex<()> = Mutex::new(());
    let _alone = DRAWS.lock().unwrap_or_else(PoisonError::into_inner);
    tch::manual_seed(seed);
    draw()
}

/// Whether a parameter is a matrix of a block: Muon moves these, and quantization rounds them.
pub fn is_hidden_matrix(name: &str, tensor: &Tensor) -> bool {
    name.contains(".h.") && tensor.dim() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: Shape = Shape { vocabulary: 32, positions: 16, width: 8, layers: 2, heads: 2 };

    #[test]
    fn the_embedded_model_has_the_promised_size() {
        let count: i64 =
            Shape::EMBEDDED.parameters().iter().map(|(_, dimensions)| dimensions.iter().product::<i64>()).sum();
        assert!((3_000_000..6_000_000).contains(&count), "{count}");
    }

    #[test]
    fn a_token_does_not_see_what_comes_after_it() {
        let model = Model::new(TINY, 1, Device::Cpu);
        let logits = |tokens: &[i64]| model.logits(&Tensor::from_slice2(&[tokens]), Kind::Float);
        let (first, second) = (logits(&[1, 2, 3, 4]), logits(&[1, 2, 3, 9]));
        let same = first.narrow(0, 0, 3).allclose(&second.narrow(0, 0, 3), 1e-6, 1e-6, false);
        assert!(same);
        assert!(!first.allclose(&second, 1e-6, 1e-6, false));
    }

    #[test]
    fn attention_written_out_is_attention() {
        let part = |seed| seeded(seed, || Tensor::randn([2, 2, 300, 4], (Kind::Float, Device::Cpu)));
        let (q, k, v) = (part(1), part(2), part(3));
        let none = None::<Tensor>;
        let fused = Tensor::scaled_dot_product_attention(&q, &k, &v, none, 0.0, true, None, false);
        assert!(causal_attention(&q, &k, &v).allclose(&fused, 1e-4, 1e-5, false));
    }

    #[test]
    fn a_new_model_knows_nothing() {
        let model = Model::new(TINY, 1, Device::Cpu);
        // What comes next, and not the token itself, which a model finds likely whose head is its embedding.
        let tokens = Tensor::from_slice2(&[[1_i64, 2, 3, 4, 5]]);
        let (inputs, targets) = (tokens.narrow(1, 0, 4), tokens.narrow(1, 1, 4));
        let loss = model.loss(&inputs, &targets, Kind::Float).double_value(&[]);
        assert!((loss - 32_f64.ln()).abs() < 0.1, "{loss}");
    }

    #[test]
    fn a_rounded_model_computes_with_rounded_weights_and_passes_gradients_on() {
        let loss = |model: &Model| {
            let tokens = Tensor::from_slice2(&[[1_i64, 2, 3, 4]]);
            model.loss(&tokens, &tokens, Kind::Float).backward();
        };
        let model = Model::new(TINY, 1, Device::Cpu);
        let rounded = model.rounded(Format::Nf4);
        loss(&rounded);
        let copies: Vec<_> =
            rounded.parameters().iter().map(|(name, tensor)| (name.clone(), tensor.detach())).collect();
        let alone = Model::from_tensors(TINY, &copies, Device::Cpu).expect("a model");
        loss(&alone);
        for ((name, ours), (_, rounded)) in model.parameters().iter().zip(alone.parameters()) {
            assert_eq!(ours.equal(rounded), !is_hidden_matrix(name, ours), "{name}");
            assert!(ours.grad().allclose(&rounded.grad(), 1e-4, 1e-7, false), "{name}");
        }
    }

    #[test]
    fn parameters_are_found_by_name_and_checked() {
        let model = Model::new(TINY, 1, Device::Cpu);
        let copy = |(name, tensor): &(String, Tensor)| (name.clone(), tensor.detach());
        let mut tensors: Vec<_> = model.parameters().iter().rev().map(copy).collect();
        let again = Model::from_tensors(TINY, &tensors, Device::Cpu).expect("the same model");
        let tokens = Tensor::from_slice2(&[[5_i64, 6, 7]]);
        let (a, b) = (model.logits(&tokens, Kind::Float), again.logits(&tokens, Kind::Float));
        assert!(a.allclose(&b, 0.0, 0.0, false));
        tensors.pop();
        assert!(Model::from_tensors(TINY, &tensors, Device::Cpu).is_err());
    }
}
