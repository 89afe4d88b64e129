//! A model whose logits are known.

use std::fmt;

use quantlab::error::{Error, Result};
use quantlab::model::{
    Architecture, CacheFormat, CacheStorage, CausalLm, Device, Engine, EngineModel, Loaded, Logits, ModelInfo,
    Precision, Step, TensorInfo,
};

use super::{Machine, Pass};

/// Logits (V) after a token at a position of its sequence, padding not counted.
type NextLogits = dyn Fn(u32, usize) -> Vec<f32> + Send + Sync;

/// Whether a pass over these ids fails, row by row, padding included.
type Fails = dyn Fn(&[u32]) -> bool + Send + Sync;

/// A model that has no weights: what it says is a function of the token and its position.
pub struct ProbeModel {
    machine: Machine,
    /// How many models came into memory before it.
    number: usize,
    info: ModelInfo,
    tensors: Vec<TensorInfo>,
    next_logits: Box<NextLogits>,
    fails_on: Option<Box<Fails>>,
}

/// Logits of which one is the highest.
pub fn one_of(id: u32, vocab_size: usize) -> Vec<f32> {
    (0..vocab_size as u32).map(|other| if other == id { 4.0 } else { 0.0 }).collect()
}

impl ProbeModel {
    /// A model on a machine that says the same token for ever.
    pub fn new(machine: &Machine, vocab_size: usize) -> Self {
        let info = ModelInfo {
            architecture: Architecture::Other("probe"),
            // Not the engine that a lesson has on a processor: an answer with that name hard-coded would report it for
            // any model.
            engine: Engine::Candle,
            device: Device::Cpu,
            dtype: Precision::Float32,
            vocab_size,
            context_len: 1024,
            n_layer: 1,
            n_head: 1,
            hidden_size: 1,
            eos_token_ids: vec![0],
            num_parameters: 0,
            parameter_bytes: 0,
            mapped_bytes: 0,
            quant_state_bytes: 0,
            bytes_per_token: 0,
            buffer_bytes: 0,
        };
        let next_logits = Box::new(move |_, _| one_of(1, vocab_size));
        let number = machine.load();
        Self { machine: machine.clone(), number, info, tensors: Vec::new(), next_logits, fails_on: None }
    }

    /// This model with something else to say.
    pub fn saying(mut self, next_logits: impl Fn(u32, usize) -> Vec<f32> + Send + Sync + 'static) -> Self {
        self.next_logits = Box::new(next_logits);
        self
    }

    /// This model, failing in passes over ids for which `fails` holds.
    pub fn failing_on(mut self, fails: impl Fn(&[u32]) -> bool + Send + Sync + 'static) -> Self {
        self.fails_on = Some(Box::new(fails));
        self
    }

    /// This model, ending its text after this many tokens, prompt and new ones together.
    pub fn ending_at(self, tokens: usize) -> Self {
        let (vocab_size, eos) = (self.info.vocab_size, self.info.eos_token_ids[0]);
        self.saying(move |_, position| one_of(if position + 1 >= tokens { eos } else { eos + 1 }, vocab_size))
    }

    /// This model with something else to tell about itself.
    pub fn with_info(mut self, change: impl FnOnce(&mut ModelInfo)) -> Self {
        change(&mut self.info);
        self
    }

    /// This model with tensors to list.
    pub fn with_tensors(mut self, tensors: Vec<TensorInfo>) -> Self {
        self.tensors = tensors;
        self
    }
}

impl Machine {
    /// A model on this machine with the tokenizer from [`tokenizer`](Self::tokenizer).
    ///
    /// # Errors
    /// Those of [`tokenizer`](Self::tokenizer).
    pub fn loaded(&self, model: impl FnOnce(ProbeModel) -> ProbeModel) -> Result<Loaded> {
        let tokenizer = self.tokenizer()?;
        let model: Box<dyn CausalLm> = Box::new(model(ProbeModel::new(self, tokenizer.vocab_size())));
        Loaded::new(tokenizer, model, "probe", "float32")
    }
}

impl Drop for ProbeModel {
    fn drop(&mut self) {
        self.machine.unload();
    }
}

impl fmt::Debug for ProbeModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProbeModel")
    }
}

impl EngineModel for ProbeModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    fn synchronize(&self) -> Result<()> {
        self.machine.synchronize()
    }

    fn compute(&self, step: &Step<'_>, _storage: Option<&mut CacheStorage>) -> Result<Logits> {
        let pass = Pass { model: self.number, ids: step.ids.to_vec() };
        self.machine.begin_pass(pass, self.info.bytes_per_token)?;
        let keys = step.past_len + step.seq_len;
        // Of the keys of each sequence, the last ones are this step's own tokens.
        let own_masks = step.key_mask.into_iter().flat_map(|mask| mask.chunks(keys)).map(|row| &row[step.past_len..]);
        let padding = own_masks.flatten().filter(|is_token| !**is_token).count();
        if self.fails_on.as_ref().is_some_and(|fails| fails(step.ids)) {
            return Err(Error::system("the device has no memory left"));
        }
        self.machine.forward(step.batch, step.seq_len, step.past_len, padding);
        let all = || (0..step.ids.len() as u32).collect();
        let wanted: Vec<u32> = step.wanted.clone().unwrap_or_else(all);
        let logits = |&at: &u32| (self.next_logits)(step.ids[at as usize], step.position_ids[at as usize] as usize);
        Logits::new(wanted.iter().flat_map(logits).collect(), step.batch, self.info.vocab_size)
    }

    fn allocate_cache(&self, _batch: usize, _capacity: usize, _format: Option<CacheFormat>) -> Result<CacheStorage> {
        Ok(CacheStorage::nothing())
    }

    fn retain_rows(&self, _: &mut CacheStorage, _rows: &[usize], _past_len: usize) -> Result<()> {
        Ok(())
    }
}
