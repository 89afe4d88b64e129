//! A layer's weights, as lessons look at them.

use quantlab::error::{Error, Result};
use quantlab::model::{Architecture, Loaded, Weights};

/// The first matrix of a model whose name contains `part`, in full precision: its name, its shape and its numbers.
///
/// # Errors
/// A model without such a layer, or whose files cannot be read.
pub(super) fn matrix(loaded: &Loaded, part: &str) -> Result<(String, [usize; 2], Vec<f32>)> {
    let mut tensors = loaded.model.tensors().iter();
    let layer = tensors.find(|tensor| tensor.name.contains(part) && tensor.shape.len() == 2);
    let layer = layer.ok_or_else(|| Error::input(format!("{} has no matrix called {part}", loaded.model_id)))?;
    let files = loaded.files.as_ref().ok_or_else(|| Error::input("the model was not loaded from files"))?;
    // GPT-2's files have inputs before outputs.
    let is_transposed = loaded.model.info().architecture == Architecture::Gpt2;
    let (rows, columns) = (layer.shape[0], layer.shape[1]);
    let weights = Weights::open(&files.weights, true)?.matrix(&layer.name, (rows, columns), is_transposed)?;
    Ok((layer.name.clone(), [rows, columns], weights))
}
