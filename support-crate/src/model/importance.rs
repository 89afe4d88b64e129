//! Texts to how much each weight matters: what goes into each layer while a model reads them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::Loaded;
use super::calibrate::observe_prompts;
use crate::error::{Error, Result};

/// For each linear layer, and each of its inputs, the mean square of that input over all tokens of some texts: an error
/// in a weight is multiplied by the input, so that this is how much it matters.
/// [`save_gguf`](Loaded::save_gguf) then chooses scales by the sum of errors weighted so.
///
/// It holds what an `imatrix` of llama.cpp's holds; as there by default, the head is left out.
///
/// ```
/// use quantlab::model::{ImportanceMatrix, LoadOptions, load_model};
///
/// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
/// let importance = ImportanceMatrix::collect(&loaded, &["The capital of France is", "Once upon a time"])?;
/// let of_layer = importance.layer("transformer.h.0.attn.c_attn").unwrap();
/// assert_eq!(of_layer.len(), 256);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ImportanceMatrix {
    layers: BTreeMap<String, Vec<f32>>,
}

/// Sums of squares of each input of a layer, and over how many tokens.
#[derive(Default)]
struct Sums {
    squares: Vec<f64>,
    tokens: usize,
}

impl ImportanceMatrix {
    /// Runs a model in full precision on texts, one at a time. Thousands of tokens like those that the model will read
    /// are enough.
    ///
    /// # Errors
    /// No texts, one that is empty or longer than the model's context; inputs of a layer that are NaN or infinite; a
    /// model that is quantized already, or of another engine than [`Kernels`](super::Engine::Kernels).
    pub fn collect(loaded: &Loaded, texts: &[impl AsRef<str>]) -> Result<Self> {
        let layers = RefCell::new(BTreeMap::<String, Sums>::new());
        observe_prompts(loaded, texts, &|layer, inputs, channels, _| {
            if layer == super::decoder::HEAD {
                return Ok(());
            }
            let mut layers = layers.borrow_mut();
            let sums = layers.entry(layer.to_owned()).or_default();
            sums.squares.resize(channels, 0.0);
            for token in inputs.chunks_exact(channels) {
                sums.tokens += 1;
                sums.squares.iter_mut().zip(token).for_each(|(sum, &input)| *sum += f64::from(input).powi(2));
            }
            Ok(())
        })?;
        let means = layers.into_inner().into_iter().map(|(layer, Sums { squares, tokens })| {
            let means: Vec<f32> = squares.iter().map(|square| (square / tokens as f64) as f32).collect();
            if means.iter().all(|mean| mean.is_finite()) {
                return Ok((layer, means));
            }
            Err(Error::format(format!("inputs of layer `{layer}` are NaN or infinite, or their squares are")))
        });
        Ok(Self { layers: means.collect::<Result<_>>()? })
    }

    /// The mean square of each input of a layer, which is called as in transformers; `None` for one that was not seen.
    pub fn layer(&self, name: &str) -> Option<&[f32]> {
        self.layers.get(name).map(Vec::as_slice)
    }

    /// The importance of the columns of a matrix of weights.
    ///
    /// # Errors
    /// It was collected from a model with another number of inputs there.
    pub(super) fn of_columns(&self, layer: &str, columns: usize) -> Result<Option<&[f32]>> {
        match self.layer(layer) {
            Some(found) if found.len() != columns => {
                Err(Error::input(format!("the importance of layer `{layer}` is that of {} inputs", found.len()))
                    .hint("collect it with the model that is saved"))
            }
            found => Ok(found),
        }
    }
}
