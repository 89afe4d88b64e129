//! A model whose logits are known, and which counts what it is asked for.

use std::sync::Mutex;

use quantlab::error::Result;
use quantlab::model::{CacheStorage, CausalLm, Device, Loaded, Logits, ModelInfo, Precision, Step};

/// Logits (V) after a token at a position of its sequence, padding not counted.
type NextLogits = dyn Fn(u32, usize) -> Vec<f32> + Send + Sync;

/// What one forward pass computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Computed {
    pub batch: usize,
    pub seq_len: usize,
    pub past_len: usize,
}

pub struct FakeModel {
    info: ModelInfo,
    next_logits: Box<NextLogits>,
    pub computed: Mutex<Vec<Computed>>,
}

impl FakeModel {
    /// A model of so many tokens, the last of which ends a text.
    pub fn new(
        vocab_size: usize,
        context_len: usize,
        next_logits: impl Fn(u32, usize) -> Vec<f32> + Send + Sync + 'static,
    ) -> Self {
        let info = ModelInfo {
            architecture: "fake",
            engine: "fake",
            device: Device::Cpu,
            dtype: Precision::Float32,
            vocab_size,
            context_len,
            n_layer: 0,
            n_head: 0,
            hidden_size: 0,
            eos_token_ids: vec![vocab_size as u32 - 1],
            num_parameters: 0,
            parameter_bytes: 0,
            mapped_bytes: 0,
            quant_state_bytes: 0,
            bytes_per_token: 0,
            buffer_bytes: 0,
        };
        Self { info, next_logits: Box::new(next_logits), computed: Mutex::default() }
    }

    /// A model that says `script`, whatever the prompt of one token.
    pub fn saying(script: Vec<u32>, vocab_size: usize) -> Self {
        let context_len = script.len() + 1;
        Self::new(vocab_size, context_len, move |_, position| only(script[position], vocab_size))
    }

    /// This model, but with these tokens that end a text.
    pub fn ending_with(mut self, eos_token_ids: &[u32]) -> Self {
        self.info.eos_token_ids = eos_token_ids.to_vec();
        self
    }

    /// This model with a tokenizer.
    pub fn with_tokenizer_of(self, other: Loaded) -> Loaded {
        Loaded { model: Box::new(self), ..other }
    }
}

/// Logits that leave one token to choose.
pub fn only(id: u32, vocab_size: usize) -> Vec<f32> {
    (0..vocab_size as u32).map(|other| if other == id { 0.0 } else { f32::NEG_INFINITY }).collect()
}

impl std::fmt::Debug for FakeModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FakeModel {{ vocab_size: {} }}", self.info.vocab_size)
    }
}

impl CausalLm for FakeModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn compute(&self, step: &Step<'_>, _storage: Option<&mut CacheStorage>) -> Result<Logits> {
        let computed = Computed { batch: step.batch, seq_len: step.seq_len, past_len: step.past_len };
        self.computed.lock().unwrap().push(computed);
        let all = || (0..step.ids.len() as u32).collect();
        let wanted: Vec<u32> = step.wanted.clone().unwrap_or_else(all);
        let logits = |&at: &u32| (self.next_logits)(step.ids[at as usize], step.position_ids[at as usize] as usize);
        Logits::new(wanted.iter().flat_map(logits).collect(), step.batch, self.info.vocab_size)
    }

    fn allocate_cache(&self, _batch: usize, _capacity: usize) -> Result<CacheStorage> {
        Ok(CacheStorage::Nothing)
    }

    fn retain_rows(&self, _: &mut CacheStorage, _rows: &[usize], _past_len: usize) -> Result<()> {
        Ok(())
    }
}
