//! One sequence while it grows.

use rand::rngs::StdRng;

use super::sampling::{Sampler, random_stream};
use super::{FinishReason, GenerateOptions, GeneratedTokens};
use crate::error::Result;

#[derive(Clone)]
pub(crate) struct Sequence {
    /// The part of the prompt that is used, and the new tokens.
    pub(crate) ids: Vec<u32>,
    pub(crate) prompt_tokens: usize,
    rng: StdRng,
    /// `Length`, unless something else ends the sequence first.
    pub(crate) finish_reason: FinishReason,
}

impl Sequence {
    /// A sequence that begins with a prompt, and draws the random numbers of one in this `row` of a batch.
    ///
    /// # Errors
    /// As [`GenerateOptions::fit`].
    pub(crate) fn start(prompt: &[u32], options: &GenerateOptions, context_len: usize, row: usize) -> Result<Self> {
        Ok(Self::new(options.fit(prompt, context_len)?.to_vec(), options.seed, row))
    }

    /// A sequence that begins with all of a prompt, and draws the random numbers of this stream.
    pub(super) fn new(prompt: Vec<u32>, seed: u64, stream: usize) -> Self {
        let (prompt_tokens, rng) = (prompt.len(), random_stream(seed, stream));
        Self { ids: prompt, prompt_tokens, rng, finish_reason: FinishReason::Length }
    }

    pub(crate) fn new_tokens(&self) -> usize {
        self.ids.len() - self.prompt_tokens
    }

    /// Chooses the next token, given the model's `logits` (V) for it; `eos` are the tokens that end a text.
    ///
    /// # Errors
    /// As [`Sampler::next_token`].
    pub(crate) fn choose(
        &mut self,
        sampler: &mut Sampler,
        options: &GenerateOptions,
        logits: &[f32],
        eos: &[u32],
    ) -> Result<u32> {
        let forbidden = if self.new_tokens() < options.min_new_tokens { eos } else { &[] };
        let token = sampler.next_token(options, logits, &self.ids, forbidden, &mut self.rng)?;
        self.ids.push(token);
        Ok(token)
    }

    /// Whether the last token ends the sequence; notes why.
    pub(crate) fn ends(&mut self, stops: &[u32], has_stop_string: bool, max_new_tokens: usize) -> bool {
        if self.ids.last().is_some_and(|id| stops.contains(id)) {
            self.finish_reason = FinishReason::Eos;
        } else if has_stop_string {
            self.finish_reason = FinishReason::StopString;
        } else {
            return self.new_tokens() >= max_new_tokens;
        }
        true
    }

    pub(super) fn finish(mut self) -> GeneratedTokens {
        let tokens = self.ids.split_off(self.prompt_tokens);
        GeneratedTokens { prompt_tokens: self.prompt_tokens, tokens, finish_reason: self.finish_reason }
    }
}
