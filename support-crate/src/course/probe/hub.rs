//! A hub whose models are known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Machine, ProbeModel};
use crate::error::{Error, Result};
use crate::model::{CausalLm, LoadOptions, ModelHub, Tokenizer, TokenizerUse};

/// Whether a model can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stock {
    /// Tokenizer and weights are there.
    Whole,
    /// The weights cannot be read.
    WithoutWeights,
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
    models: Vec<(String, LoadOptions)>,
    /// Ids of the models whose tokenizer was used last.
    encoding: Vec<String>,
}

impl ProbeHub {
    /// A hub whose models run on `machine`.
    pub fn new(machine: &Machine, models: &[(&str, Stock)]) -> Self {
        let models = models.iter().map(|&(id, stock)| (id.to_owned(), stock)).collect();
        Self { machine: machine.clone(), models, asked: Arc::default() }
    }

    /// The models that were asked for, with their options.
    pub fn models_asked(&self) -> Vec<(String, LoadOptions)> {
        self.asked().models.clone()
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

    fn stock(&self, model_id: &str) -> Result<Stock> {
        let found = self.models.iter().find(|(id, _)| id == model_id);
        found.map(|&(_, stock)| stock).ok_or_else(|| Error::source(format!("there is no model `{model_id}`")))
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelHub for ProbeHub {
    fn tokenizer(&self, model_id: &str) -> Result<Tokenizer> {
        self.stock(model_id)?;
        let (asked, id) = (self.asked.clone(), model_id.to_owned());
        Ok(self.machine.tokenizer()?.observed(move |what| {
            if what == TokenizerUse::Encode {
                asked.lock().unwrap_or_else(PoisonError::into_inner).encoding.push(id.clone());
            }
        }))
    }

    fn model(&self, model_id: &str, options: &LoadOptions) -> Result<Box<dyn CausalLm>> {
        self.asked().models.push((model_id.to_owned(), options.clone()));
        match self.stock(model_id)? {
            Stock::Whole => {
                let vocab_size = self.machine.tokenizer()?.vocab_size();
                Ok(Box::new(ProbeModel::new(&self.machine, vocab_size).with_info(|info| {
                    info.dtype = options.precision;
                    info.device = options.device;
                })))
            }
            Stock::WithoutWeights => Err(Error::source(format!("the weights of `{model_id}` cannot be read"))),
        }
    }
}
