//! Where a model's two halves come from, each by the model's id.

use super::load::{open_model, open_tokenizer};
use super::{CausalLm, LoadOptions, Tokenizer};
use crate::error::Result;

/// Tokenizers and models by id. A function that is given its hub can be tried out with one whose models are
/// known.
pub trait ModelHub {
    /// The tokenizer that belongs to a model (transformers: `AutoTokenizer.from_pretrained`).
    ///
    /// # Errors
    /// There is no such model, or it has no tokenizer that can be read.
    fn tokenizer(&self, model_id: &str) -> Result<Tokenizer>;

    /// A model, ready to run (transformers: `AutoModelForCausalLM.from_pretrained`).
    ///
    /// # Errors
    /// There is no such model, or it cannot be loaded with these options.
    fn model(&self, model_id: &str, options: &LoadOptions) -> Result<Box<dyn CausalLm>>;
}

/// Every model that a [`ModelId`](crate::source::ModelId) can name: on the Hugging Face Hub, in a folder,
/// embedded, random.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hub;

impl ModelHub for Hub {
    fn tokenizer(&self, model_id: &str) -> Result<Tokenizer> {
        open_tokenizer(model_id)
    }

    fn model(&self, model_id: &str, options: &LoadOptions) -> Result<Box<dyn CausalLm>> {
        open_model(model_id, options)
    }
}
