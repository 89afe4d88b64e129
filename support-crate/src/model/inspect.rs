//! A model's weights, and what it computes with them, as plain numbers: for who writes the same model anew, and wants to
//! know where the two differ.

use std::cell::RefCell;
use std::fmt;

use super::cache::Layout;
use super::causal_lm::{Seal, check_tokens};
use super::{Loaded, LogitPositions, TokenBatch};
use crate::error::{Context, Result};
use crate::interrupt;

/// A tensor of a model in float32.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainWeight {
    /// As transformers calls it: `model.layers.0.self_attn.q_proj.weight`.
    pub name: String,
    /// (out, in) of a matrix, whatever order a file has it in.
    pub shape: Vec<usize>,
    /// Row by row.
    pub values: Vec<f32>,
}

/// What was computed; the shape of its values is that of one token. Letters as in the table of a model's parts: C width of
/// the hidden state, H heads, J heads of keys and values, D width of a head, I width inside the feed-forward part, V tokens
/// in the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// The token's embedding, with that of its position if the model has one: (C).
    Embedding,
    /// What attention reads, after the norm before it, if there is one: (C).
    AttentionNorm,
    /// Queries, after their norm and rotation: (H D).
    Queries,
    /// Keys, after their norm and rotation: (J D).
    Keys,
    /// Values: (J D).
    Values,
    /// The weighted means of values, heads side by side, before the output matrix: (H D).
    Attention,
    /// The hidden state with the output of attention added: (C).
    AttentionResidual,
    /// What the feed-forward part reads, after the norm before it, if there is one: (C).
    MlpNorm,
    /// What goes into the last matrix of the feed-forward part: (I).
    MlpHidden,
    /// The hidden state with the output of the feed-forward part added, which the next block reads: (C).
    MlpResidual,
    /// The norm before the head: (C).
    FinalNorm,
    /// The logits: (V).
    Logits,
}

/// One operation of one layer, for all tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct Traced {
    /// Of which block, from 0; `None` outside of the blocks.
    pub layer: Option<usize>,
    /// What was computed.
    pub operation: Operation,
    /// (tokens, width) row by row.
    pub values: Vec<f32>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Embedding => "embedding",
            Self::AttentionNorm => "attention norm",
            Self::Queries => "queries",
            Self::Keys => "keys",
            Self::Values => "values",
            Self::Attention => "attention",
            Self::AttentionResidual => "attention residual",
            Self::MlpNorm => "MLP norm",
            Self::MlpHidden => "MLP hidden",
            Self::MlpResidual => "MLP residual",
            Self::FinalNorm => "final norm",
            Self::Logits => "logits",
        })
    }
}

impl Loaded {
    /// Copies of all tensors in float32, each once: a head that is the token embedding is not one of its own.
    ///
    /// ```
    /// use quantlab::model::{LoadOptions, load_model};
    ///
    /// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
    /// let weights = loaded.plain_weights()?;
    /// assert_eq!((weights[0].name.as_str(), &weights[0].shape[..]), ("transformer.wte.weight", &[4096, 256][..]));
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// A layer that is quantized; what the engine reports.
    pub fn plain_weights(&self) -> Result<Vec<PlainWeight>> {
        let tensors = self.model.engine_model(Seal).plain_tensors();
        let tensors = tensors.context(|| format!("the weights of `{}` cannot be copied", self.model_id))?;
        let copy = |tensor: super::PlainTensor<'_>| {
            interrupt::check()?;
            let mut values = Vec::with_capacity(tensor.shape.iter().product());
            (tensor.open)()?(0..tensor.shape[0], &mut values);
            Ok(PlainWeight { name: tensor.name, shape: tensor.shape, values })
        };
        tensors.into_iter().map(copy).collect()
    }
}

/// Runs a model on a sequence of tokens and keeps what each operation gives, in the order of computing: the embedding, nine
/// operations for each block, the final norm, and the logits of every position.
///
/// ```
/// use quantlab::model::{LoadOptions, Operation, load_model, trace};
///
/// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
/// let traced = trace(&loaded, &loaded.tokenizer.encode("Once upon a time")?)?;
/// assert_eq!(traced.len(), 1 + 9 * loaded.model.info().n_layer + 2);
/// assert_eq!((traced[5].layer, traced[5].operation), (Some(0), Operation::Attention));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// No tokens, one beyond the vocabulary, more than the context has room for; a model of another engine than
/// [`Kernels`](super::Engine::Kernels).
pub fn trace(loaded: &Loaded, ids: &[u32]) -> Result<Vec<Traced>> {
    let tokens = TokenBatch::single(ids)?;
    check_tokens(loaded.model.info(), &tokens, 0)?;
    let traced = RefCell::new(Vec::new());
    let keep = |layer, operation, values: &[f32]| {
        traced.borrow_mut().push(Traced { layer, operation, values: values.to_vec() });
    };
    let layout = Layout::of(&tokens);
    let step = layout.step(&tokens, LogitPositions::All);
    let logits = loaded.model.engine_model(Seal).trace(&step, &keep)?;
    keep(None, Operation::Logits, logits.values());
    Ok(traced.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Engine, LoadOptions, load_model};

    fn embedded(engine: Engine) -> Loaded {
        load_model(&["embedded"], &LoadOptions { engine: Some(engine), ..LoadOptions::default() }).unwrap()
    }

    fn values(traced: &[Traced], layer: impl Into<Option<usize>>, operation: Operation) -> &[f32] {
        let layer = layer.into();
        &traced.iter().find(|traced| traced.layer == layer && traced.operation == operation).unwrap().values
    }

    fn assert_close(got: impl IntoIterator<Item = f32>, expected: &[f32]) {
        let got: Vec<f32> = got.into_iter().collect();
        assert_eq!(got.len(), expected.len());
        let largest = expected.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-5 * largest), "{got:?} {expected:?}");
    }

    /// GPT-2's operations by hand, from the plain weights: each from what was traced before it.
    #[test]
    fn what_is_traced_follows_from_the_plain_weights() {
        let loaded = embedded(Engine::Kernels);
        let (weights, ids) = (loaded.plain_weights().unwrap(), [17, 300, 5]);
        let weight = |name: &str| {
            let name = format!("transformer.{name}");
            &weights.iter().find(|weight| weight.name == name).unwrap().values[..]
        };
        let traced = trace(&loaded, &ids).unwrap();
        let (c, last) = (256, 2);
        let token = |values: &[f32], width: usize| values[last * width..(last + 1) * width].to_vec();
        let product = |matrix: &[f32], x: &[f32]| -> Vec<f32> {
            matrix.chunks_exact(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
        };
        let add = |a: Vec<f32>, b: &[f32]| -> Vec<f32> { a.iter().zip(b).map(|(a, b)| a + b).collect() };
        let norm = |x: &[f32], name: &str| -> Vec<f32> {
            let mean = x.iter().sum::<f32>() / c as f32;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / c as f32;
            let root = (variance + 1e-5).sqrt();
            let scaled = x.iter().zip(weight(&format!("{name}.weight"))).map(|(x, scale)| (x - mean) / root * scale);
            add(scaled.collect(), weight(&format!("{name}.bias")))
        };

        let embedding = weight("wte.weight")[5 * c..6 * c].to_vec();
        let embedding = add(embedding, &weight("wpe.weight")[last * c..(last + 1) * c]);
        assert_close(token(values(&traced, None, Operation::Embedding), c), &embedding);

        let mut x = embedding;
        for layer in 0..loaded.model.info().n_layer {
            let of = |operation| token(values(&traced, layer, operation), c);
            assert_close(of(Operation::AttentionNorm), &norm(&x, &format!("h.{layer}.ln_1")));
            let qkv = add(
                product(weight(&format!("h.{layer}.attn.c_attn.weight")), &of(Operation::AttentionNorm)),
                weight(&format!("h.{layer}.attn.c_attn.bias")),
            );
            let parts = [Operation::Queries, Operation::Keys, Operation::Values].map(of).concat();
            assert_close(parts, &qkv);
            let out = product(weight(&format!("h.{layer}.attn.c_proj.weight")), &of(Operation::Attention));
            let residual = add(add(out, weight(&format!("h.{layer}.attn.c_proj.bias"))), &x);
            assert_close(of(Operation::AttentionResidual), &residual);
            assert_close(of(Operation::MlpNorm), &norm(&residual, &format!("h.{layer}.ln_2")));
            let hidden = token(values(&traced, layer, Operation::MlpHidden), 4 * c);
            let out = product(weight(&format!("h.{layer}.mlp.c_proj.weight")), &hidden);
            x = of(Operation::MlpResidual);
            assert_close(x.clone(), &add(add(out, weight(&format!("h.{layer}.mlp.c_proj.bias"))), &residual));
        }
        let last_norm = token(values(&traced, None, Operation::FinalNorm), c);
        assert_close(last_norm.clone(), &norm(&x, "ln_f"));
        assert_close(product(weight("wte.weight"), &last_norm), &token(values(&traced, None, Operation::Logits), 4096));
    }

    /// Attention is the mean of what it sees: the first token sees itself only.
    #[test]
    fn the_first_token_attends_to_its_own_values() {
        let traced = trace(&embedded(Engine::Kernels), &[3, 4]).unwrap();
        assert_close(
            values(&traced, 0, Operation::Attention)[..256].to_vec(),
            &values(&traced, 0, Operation::Values)[..256],
        );
    }

    #[test]
    fn a_traced_run_has_the_logits_of_any_run() {
        let (loaded, ids) = (embedded(Engine::Kernels), [9, 8, 7, 6]);
        let tokens = TokenBatch::single(&ids).unwrap();
        let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
        assert_eq!(values(&trace(&loaded, &ids).unwrap(), None, Operation::Logits), logits.values());
    }

    #[test]
    fn what_cannot_be_traced_or_copied_says_so() {
        let loaded = embedded(Engine::Kernels);
        assert!(trace(&loaded, &[]).is_err());
        let error = trace(&loaded, &[4096]).unwrap_err().to_string();
        assert!(error.contains("4096 is beyond the model's vocabulary"), "{error}");
        let on_candle = embedded(Engine::Candle);
        let error = trace(&on_candle, &[1]).unwrap_err().to_string();
        assert!(error.contains("cannot be traced in candle"), "{error}");
        assert_eq!(on_candle.plain_weights().unwrap(), loaded.plain_weights().unwrap());
        let quantization = Some(crate::quant::QuantizationConfig::nf4());
        let options = LoadOptions { quantization, ..LoadOptions::default() };
        let error = load_model(&["embedded"], &options).unwrap().plain_weights().unwrap_err().to_string();
        assert!(error.contains("`embedded` cannot be copied") && error.contains("quantized already"), "{error}");
    }
}
