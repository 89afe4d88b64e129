//! Continues prompts with new tokens, all sequences of a batch at once.

use std::ops::ControlFlow;

use serde::Serialize;

use super::sampling::Sampler;
use super::sequence::Sequence;
use super::{GenerateOptions, PaddingSide};
use crate::error::{Error, Result};
use crate::model::{CausalLm, KvCache, Loaded, LogitPositions, Logits, TokenBatch};

/// Pads shorter prompts. It is masked, so any id that every vocabulary has will do.
const PAD: u32 = 0;

/// Why a text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// There were `max_new_tokens`, or, in a conversation, no more fitted into the model's context.
    Length,
    /// The model chose a token that ends a text.
    Eos,
    /// The text contains a stop string.
    StopString,
}

/// The new tokens of one sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GeneratedTokens {
    /// Tokens of the prompt that the model read: all, or with `truncation` the last ones.
    pub prompt_tokens: usize,
    /// The new tokens, with the one that ended the text if there was one.
    pub tokens: Vec<u32>,
    /// Why there are no more.
    pub finish_reason: FinishReason,
}

/// Continues prompts of token ids, of any lengths, as one batch; `on_token` sees each new token as soon as
/// it is known, with the index of its prompt.
///
/// A sequence's tokens do not depend on its neighbours in the batch or on padding, with the exceptions that
/// [`CausalLm::forward`] names. One that is finished leaves the batch and costs nothing more.
///
/// ```
/// use quantlab::generate::{GenerateOptions, generate_tokens};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let prompts = [loaded.tokenizer.encode("The capital of France is")?, loaded.tokenizer.encode("Once")?];
/// let options = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
/// let sequences = generate_tokens(&*loaded.model, &prompts, &options, &mut |row, token| println!("{row}: {token}"))?;
/// assert_eq!(sequences.len(), 2);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// Options that are not allowed (see [`GenerateOptions::check`]), or `stop_strings`, which need a tokenizer;
/// no prompts, an empty one, one with a token that the model does not know, or one that leaves no room for the new tokens in
/// the model's context; keys and values that do not fit into memory, or a format that the engine cannot keep them in; logits
/// that are NaN.
pub fn generate_tokens(
    model: &dyn CausalLm,
    prompts: &[Vec<u32>],
    options: &GenerateOptions,
    on_token: &mut dyn FnMut(usize, u32),
) -> Result<Vec<GeneratedTokens>> {
    options.check_without_text()?;
    continue_batch(model, prompts, options, &mut |row, token| {
        on_token(row, token);
        Ok(ControlFlow::Continue(()))
    })
}

impl Loaded {
    /// Continues one prompt of token ids. The tokenizer is not used, so that what is timed is the model alone.
    ///
    /// ```
    /// use quantlab::generate::GenerateOptions;
    /// use quantlab::model::{Device, load_model_and_tokenizer};
    ///
    /// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
    /// let ids = loaded.tokenizer.encode("The capital of France is")?;
    /// let generated = loaded.generate_tokens(&ids, &GenerateOptions { max_new_tokens: 1, ..Default::default() })?;
    /// assert_eq!(loaded.tokenizer.decode(&generated.tokens)?, " Paris");
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`generate_tokens`](fn@generate_tokens).
    pub fn generate_tokens(&self, ids: &[u32], options: &GenerateOptions) -> Result<GeneratedTokens> {
        Ok(generate_tokens(&*self.model, &[ids.to_vec()], options, &mut |_, _| ())?.remove(0))
    }
}

/// As [`generate_tokens`]; if `on_token` breaks, the sequence has reached a stop string.
pub(super) fn continue_batch(
    model: &dyn CausalLm,
    prompts: &[Vec<u32>],
    options: &GenerateOptions,
    on_token: &mut dyn FnMut(usize, u32) -> Result<ControlFlow<()>>,
) -> Result<Vec<GeneratedTokens>> {
    options.check()?;
    let mut sequences = start_all(prompts, options, model.info().context_len)?;
    let mut sampler = Sampler::default();
    let eos = model.info().eos_token_ids.as_slice();
    let stops = options.stops(eos);
    let mut cache = if options.use_cache { Some(new_cache(model, &sequences, options)?) } else { None };
    let mut active: Vec<usize> = (0..sequences.len()).collect();
    while !active.is_empty() {
        let logits = forward(model, &sequences, &active, options.padding_side, cache.as_mut())?;
        // The places, in this step's batch, of the sequences that go on.
        let mut kept = Vec::with_capacity(active.len());
        for (place, &row) in active.iter().enumerate() {
            let sequence = &mut sequences[row];
            let token = sequence.choose(&mut sampler, options, logits.row(place, 0), eos);
            let token = token.map_err(|error| of_prompt(error, row, prompts.len()))?;
            let has_stop_string = on_token(row, token)?.is_break();
            if !sequence.ends(stops, has_stop_string, options.max_new_tokens) {
                kept.push(place);
            }
        }
        if let Some(cache) = &mut cache
            && !kept.is_empty()
            && kept.len() < active.len()
        {
            model.retain(cache, &kept)?;
        }
        active = kept.into_iter().map(|place| active[place]).collect();
    }
    Ok(sequences.into_iter().map(Sequence::finish).collect())
}

fn start_all(prompts: &[Vec<u32>], options: &GenerateOptions, context_len: usize) -> Result<Vec<Sequence>> {
    if prompts.is_empty() {
        return Err(Error::input("there are no prompts").hint("give at least one"));
    }
    let start = |(row, prompt): (usize, &Vec<u32>)| {
        Sequence::start(prompt, options, context_len, row).map_err(|error| of_prompt(error, row, prompts.len()))
    };
    prompts.iter().enumerate().map(start).collect()
}

fn new_cache(model: &dyn CausalLm, sequences: &[Sequence], options: &GenerateOptions) -> Result<KvCache> {
    let longest = sequences.iter().map(|sequence| sequence.prompt_tokens).max().unwrap_or(0);
    // The last new token is returned, not fed back.
    model.new_cache_in(options.cache_format, sequences.len(), longest + options.max_new_tokens - 1)
}

/// The logits for the next token of each active sequence: (active, 1, V). What a cache holds already is
/// not computed again.
fn forward(
    model: &dyn CausalLm,
    sequences: &[Sequence],
    active: &[usize],
    padding_side: PaddingSide,
    cache: Option<&mut KvCache>,
) -> Result<Logits> {
    let is_cached = cache.as_ref().is_some_and(|cache| cache.past_len() > 0);
    let input = |&row: &usize| {
        let ids = &sequences[row].ids;
        if is_cached { &ids[ids.len() - 1..] } else { &ids[..] }
    };
    let inputs: Vec<&[u32]> = active.iter().map(input).collect();
    model.forward(&padded(&inputs, padding_side)?, cache, LogitPositions::Last)
}

/// One batch of sequences of any lengths. The mask hides padding, so any token will do.
pub(crate) fn padded(sequences: &[&[u32]], side: PaddingSide) -> Result<TokenBatch> {
    let longest = sequences.iter().map(|ids| ids.len()).max().unwrap_or(0);
    let rows = |ids: &&[u32]| {
        let tokens = ids.iter().map(|&id| (id, true));
        let padding = std::iter::repeat_n((PAD, false), longest - ids.len());
        match side {
            PaddingSide::Left => padding.chain(tokens).unzip(),
            PaddingSide::Right => tokens.chain(padding).unzip(),
        }
    };
    let (ids, mask): (Vec<Vec<u32>>, Vec<Vec<bool>>) = sequences.iter().map(rows).unzip();
    TokenBatch::new(&ids)?.with_attention_mask(&mask)
}

/// Says which prompt an error is about, if there are several.
fn of_prompt(error: Error, row: usize, prompts: usize) -> Error {
    if prompts > 1 { error.context(format!("prompt {row}")) } else { error }
}
