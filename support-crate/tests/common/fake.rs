//! Models whose logits are known.

use quantlab::model::Loaded;
use quantlab_course::probe::{Costs, Machine, ProbeModel};

/// A model of so many tokens, the last of which ends a text, on a machine that notes what it is asked for.
pub fn fake_on(
    machine: &Machine,
    vocab_size: usize,
    context_len: usize,
    next_logits: impl Fn(u32, usize) -> Vec<f32> + Send + Sync + 'static,
) -> ProbeModel {
    let model =
        ProbeModel::new(machine, vocab_size).saying(next_logits).with_info(|info| info.context_len = context_len);
    ending_with(model, &[vocab_size as u32 - 1])
}

/// The same on a machine of its own.
pub fn fake(
    vocab_size: usize,
    context_len: usize,
    next_logits: impl Fn(u32, usize) -> Vec<f32> + Send + Sync + 'static,
) -> ProbeModel {
    fake_on(&Machine::new(Costs::PLAIN), vocab_size, context_len, next_logits)
}

/// A model that says `script`, whatever the prompt of one token.
pub fn saying(script: Vec<u32>, vocab_size: usize) -> ProbeModel {
    let context_len = script.len() + 1;
    fake(vocab_size, context_len, move |_, position| only(script[position], vocab_size))
}

/// This model, but with these tokens that end a text.
pub fn ending_with(model: ProbeModel, eos_token_ids: &[u32]) -> ProbeModel {
    model.with_info(|info| info.eos_token_ids = eos_token_ids.to_vec())
}

/// This model with a tokenizer.
pub fn with_tokenizer_of(model: ProbeModel, other: Loaded) -> Loaded {
    Loaded { model: Box::new(model), ..other }
}

/// Logits that leave one token to choose.
pub fn only(id: u32, vocab_size: usize) -> Vec<f32> {
    (0..vocab_size as u32).map(|other| if other == id { 0.0 } else { f32::NEG_INFINITY }).collect()
}
