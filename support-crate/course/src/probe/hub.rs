//! A hub whose models are known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quantlab::error::{Error, Result};
use quantlab::model::{CausalLm, LoadOptions, ModelHub, Precision, Tokenizer, TokenizerUse};

use super::{Machine, ProbeModel};

/// What is available of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stock {
    /// Tokenizer and weights are there.
    Whole,
    /// The weights cannot be read.
    WithoutWeights,
    /// There are weights, but no tokenizer.
    WithoutTokenizer,
    /// Both are there, but the tokenizer has more tokens than the model.
    Unfit,
    /// The model loads in float32 only.
    Float32Only,
}

/// A hub with a few models; every other id is unknown to it. It notes what it was asked for.
#[derive(Debug, Clone)]
pub struct ProbeHub {
    machine: Machine,
    models: Vec<(String, Stock)>,
    asked: Arc<Mutex<Asked>>,
}

/// What a hub was asked for, in order.
#[derive(Debug, Clone, Default)]
struct Asked {
    /// The ids that anything was asked for by.
    ids: Vec<String>,
    models: Vec<(String, LoadOptions)>,
    /// Those of them that were loaded.
    loaded: Vec<(String, LoadOptions)>,
    /// Ids of the models whose tokenizer was used last.
    encoding: Vec<String>,
}

impl ProbeHub {
    /// A hub whose models run on `machine`.
    pub fn new(machine: &Machine, models: &[(&str, Stock)]) -> Self {
        let models = models.iter().map(|&(id, stock)| (id.to_owned(), stock)).collect();
        Self { machine: machine.clone(), models, asked: Arc::default() }
    }

    /// The ids of the tokenizers and models that were asked for, in order.
    pub fn ids_asked(&self) -> Vec<String> {
        self.asked().ids.clone()
    }

    /// The models that were asked for, with their options.
    pub fn models_asked(&self) -> Vec<(String, LoadOptions)> {
        self.asked().models.clone()
    }

    /// The models that were loaded, with their options, in the order of their numbers in [`Pass`](super::Pass) if
    /// nobody else loads models on this machine.
    pub fn models_loaded(&self) -> Vec<(String, LoadOptions)> {
        self.asked().loaded.clone()
    }

    /// The model that a tokenizer from this hub belongs to.
    ///
    /// # Errors
    /// The tokenizer fails.
    pub fn owner_of(&self, tokenizer: &Tokenizer) -> Result<Option<String>> {
        self.asked().encoding.clear();
        tokenizer.encode("a")?;
        Ok(self.asked().encoding.first().cloned())
    }

    /// The bytes that a model reads for each token: a different number for each model and precision.
    ///
    /// # Errors
    /// There is no such model.
    pub fn bytes_per_token(&self, model_id: &str, precision: Precision) -> Result<usize> {
        let place = self.models.iter().position(|(id, _)| id == model_id).ok_or_else(|| unknown(model_id))?;
        Ok(precision.size_in_bytes() * (1000 + place))
    }

    fn stock(&self, model_id: &str) -> Result<Stock> {
        let found = self.models.iter().find(|(id, _)| id == model_id);
        found.map(|&(_, stock)| stock).ok_or_else(|| unknown(model_id))
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unknown(model_id: &str) -> Error {
    Error::source(format!("there is no model `{model_id}`"))
}

impl ModelHub for ProbeHub {
    fn tokenizer(&self, model_id: &str) -> Result<Tokenizer> {
        self.asked().ids.push(model_id.to_owned());
        if self.stock(model_id)? == Stock::WithoutTokenizer {
            // Not every error names the model that it is about.
            return Err(Error::source("there is no tokenizer.json"));
        }
        let (asked, id) = (self.asked.clone(), model_id.to_owned());
        Ok(self.machine.tokenizer()?.observed(move |what| {
            if what == TokenizerUse::Encode {
                asked.lock().unwrap_or_else(PoisonError::into_inner).encoding.push(id.clone());
            }
        }))
    }

    fn model(&self, model_id: &str, options: &LoadOptions) -> Result<Box<dyn CausalLm>> {
        self.asked().ids.push(model_id.to_owned());
        self.asked().models.push((model_id.to_owned(), options.clone()));
        match self.stock(model_id)? {
            Stock::Float32Only if options.precision != Precision::Float32 => {
                Err(Error::source(format!("there are no kernels for `{model_id}` in {}", options.precision)))
            }
            stock @ (Stock::Whole | Stock::WithoutTokenizer | Stock::Unfit | Stock::Float32Only) => {
                self.asked().loaded.push((model_id.to_owned(), options.clone()));
                let bytes_per_token = self.bytes_per_token(model_id, options.precision)?;
                let vocab_size = match stock {
                    Stock::Unfit => 1,
                    _ => self.machine.tokenizer()?.vocab_size(),
                };
                Ok(Box::new(ProbeModel::new(&self.machine, vocab_size).with_info(|info| {
                    info.dtype = options.precision;
                    info.device = options.device;
                    info.bytes_per_token = bytes_per_token;
                })))
            }
            Stock::WithoutWeights => Err(Error::source(format!("the weights of `{model_id}` cannot be read"))),
        }
    }
}
