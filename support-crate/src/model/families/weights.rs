//! The tensors of a model of candle-transformers.
//!
//! A model is built twice: first over tensors without memory, which shows what it needs, in which shapes, and whether
//! its config makes sense to it; then, if all of that is there, over what the files hold. So a file that does not fit
//! is found before anything is read, and nothing in candle-transformers has to deal with it.

use std::collections::HashMap;
use std::sync::Mutex;

use candle_core::{DType, Device, Shape, Tensor, bail};
use candle_nn::var_builder::SimpleBackend;
use candle_nn::{Init, VarBuilder};

use super::config::FamilyConfig;
use crate::error::{Error, Result};
use crate::model::tensor_library::{Candle, Operations};
use crate::model::weights::UnreadTensor;
use crate::model::{Precision, Weights};
use crate::progress::Progress;

pub(super) const EMBEDDING: &str = "model.embed_tokens.weight";
pub(super) const HEAD: &str = "lm_head.weight";

/// Tensors by name.
pub(super) type Tensors = HashMap<String, Tensor>;

/// Names and shapes of the tensors that the model asks for, each once, in its order.
///
/// # Errors
/// A config that candle-transformers cannot read or build a model from.
pub(super) fn needed(config: &FamilyConfig) -> Result<Vec<(String, Vec<usize>)>> {
    let plan = Plan { tied: config.tie_word_embeddings, asked: Mutex::default() };
    drop(config.build(1, VarBuilder::from_backend(Box::new(&plan), DType::F32, Device::Cpu))?);
    let mut asked = plan.asked.into_inner().map_err(|_| Error::system("a model of candle-transformers panicked"))?;
    // Models that are called for hidden states have their head outside.
    if !asked.iter().any(|(name, _)| name == HEAD) && !config.tie_word_embeddings {
        asked.push((HEAD.to_owned(), vec![config.vocab_size, config.hidden_size]));
    }
    Ok(asked)
}

/// Reads all of `needed`, each of which has been found to be there.
///
/// # Errors
/// A tensor that is missing, has another shape, or holds numbers that are not floating-point, by name.
pub(super) fn read(
    config: &FamilyConfig,
    needed: &[(String, Vec<usize>)],
    weights: &Weights,
    dtype: Precision,
    candle: &Candle,
) -> Result<Tensors> {
    needed.iter().try_for_each(|(name, shape)| weights.check(name, shape))?;
    let mut progress = Progress::new("loading", needed.len(), "tensors");
    let mut tensors = Tensors::with_capacity(needed.len());
    for (name, shape) in needed {
        let tensor = UnreadTensor { weights, name, shape, transposed: false };
        let tensor = match (config.family.factor)(config, name) {
            1.0 => candle.read(tensor, dtype)?,
            factor => (candle.read(tensor, Precision::Float32)? * factor)?.to_dtype(dtype.to_candle())?,
        };
        tensors.insert(name.clone(), tensor);
        progress.advance(1);
    }
    Ok(tensors)
}

/// Notes what is asked for, and gives zeros without memory for it.
struct Plan {
    tied: bool,
    asked: Mutex<Vec<(String, Vec<usize>)>>,
}

impl SimpleBackend for &Plan {
    fn get(&self, s: Shape, name: &str, _: Init, dtype: DType, dev: &Device) -> candle_core::Result<Tensor> {
        let name = stored_name(name, self.tied);
        if let Ok(mut asked) = self.asked.lock()
            && !asked.iter().any(|(other, _)| other == name)
        {
            asked.push((name.to_owned(), s.dims().to_vec()));
        }
        Tensor::zeros(1, dtype, dev)?.broadcast_as(s)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        bail!("the shape of tensor `{name}` is not known")
    }

    fn contains_tensor(&self, name: &str) -> bool {
        name != HEAD || !self.tied
    }
}

/// What the files held.
pub(super) struct Held<'a> {
    pub tensors: &'a Tensors,
    pub tied: bool,
}

impl SimpleBackend for Held<'_> {
    fn get(&self, s: Shape, name: &str, _: Init, dtype: DType, dev: &Device) -> candle_core::Result<Tensor> {
        let tensor = self.get_unchecked(name, dtype, dev)?;
        match tensor.shape() == &s {
            true => Ok(tensor),
            false => bail!("tensor `{name}` has shape {:?}, expected {s:?}", tensor.shape()),
        }
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> candle_core::Result<Tensor> {
        match self.tensors.get(stored_name(name, self.tied)) {
            Some(tensor) => Ok(tensor.clone()),
            None => bail!("there is no tensor `{name}`"),
        }
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.tensors.contains_key(stored_name(name, self.tied)) && (name != HEAD || !self.tied)
    }
}

/// Some families have no tied heads in candle-transformers: theirs is the embedding under the head's name.
fn stored_name(name: &str, tied: bool) -> &str {
    if tied && name == HEAD { EMBEDDING } else { name }
}
