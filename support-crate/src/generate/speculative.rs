//! Speculative decoding: several tokens are guessed cheaply, and the model checks them in one pass.

use serde::Serialize;

use super::sampling::Sampler;
use super::sequence::Sequence;
use super::{GenerateOptions, GeneratedTokens};
use crate::error::{Error, Result};
use crate::model::{CausalLm, KvCache, Loaded, LogitPositions, TokenBatch};

/// Where guesses come from.
#[derive(Debug, Clone, Copy)]
pub enum Draft<'a> {
    /// From the text itself: where its last tokens, at most so many, stood before, and what followed them there. Costs
    /// nothing, and guesses well what quotes or repeats.
    ///
    /// Source: Saxena 2023, "Prompt Lookup Decoding"; `prompt_lookup_num_tokens` in transformers, which takes the first
    /// such place and not the last one.
    PromptLookup {
        /// At most this many of the last tokens are looked for; at least 1.
        ngram: usize,
    },
    /// A smaller model with the same vocabulary.
    Model(&'a dyn CausalLm),
}

/// What was generated, and how many guesses that took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Speculative {
    /// The tokens: those that the model generates without guesses, as far as
    /// [`generate_speculative`](Loaded::generate_speculative) promises.
    pub generated: GeneratedTokens,
    /// Passes through the model, the prompt's included.
    pub passes: usize,
    /// Tokens that were guessed, as far as the model checked them: those before its first other choice, and that one.
    pub checked: usize,
    /// How many of these the model chose, too.
    pub accepted: usize,
}

impl Speculative {
    /// The share of the checked guesses that were right, 0 to 1; NaN without guesses.
    pub fn acceptance(&self) -> f64 {
        self.accepted as f64 / self.checked as f64
    }

    /// New tokens for each pass through the model: 1 without guesses.
    pub fn tokens_per_pass(&self) -> f64 {
        self.generated.tokens.len() as f64 / self.passes as f64
    }
}

impl Loaded {
    /// Continues one prompt of token ids with up to `guesses` guessed tokens in each pass.
    ///
    /// The tokens are those that [`generate_tokens`](Self::generate_tokens) gives for the same options, greedy or drawn at
    /// random: each is chosen from the model's own logits with the same random numbers, and guesses only decide how many
    /// of these logits come out of one pass. (A draft model draws with the same numbers too, so that it often draws the
    /// same.) This holds where logits do not depend on how many tokens are computed together, as on the engine
    /// `kernels` with the exceptions that [`CausalLm::forward`] names; elsewhere two tokens that are almost equally
    /// likely may change places.
    ///
    /// ```
    /// use quantlab::generate::{Draft, GenerateOptions};
    /// use quantlab::model::{LoadOptions, load_model};
    ///
    /// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
    /// let ids = loaded.tokenizer.encode("The capital of France is Paris. The capital of")?;
    /// let options = GenerateOptions { max_new_tokens: 24, ..GenerateOptions::default() };
    /// let found = loaded.generate_speculative(&ids, Draft::PromptLookup { ngram: 3 }, 4, &options)?;
    /// assert_eq!(found.generated, loaded.generate_tokens(&ids, &options)?);
    /// assert!(found.passes < 24);
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// Source: Leviathan, Kalman, Matias 2022, arXiv:2211.17192. There, a guess is accepted with probability
    /// `min(1, p / q)`; drawing with common random numbers gives each token the model's probabilities too, and the same text.
    ///
    /// # Errors
    /// As [`generate_tokens`](fn@super::generate_tokens); an `ngram` of 0; options without a cache; a draft model with
    /// another vocabulary; guesses that a quantized cache
    /// cannot forget ([`CausalLm::truncate`](crate::model::CausalLm::truncate)): it always can 64.
    pub fn generate_speculative(
        &self,
        ids: &[u32],
        draft: Draft<'_>,
        guesses: usize,
        options: &GenerateOptions,
    ) -> Result<Speculative> {
        let model = &*self.model;
        options.check()?;
        if !options.use_cache {
            return Err(Error::input("guesses are checked beside a cache, and `use_cache` is false"));
        }
        options.check_without_text()?;
        let mut sequence = Sequence::start(ids, options, model.info().context_len, 0)?;
        let prompt_tokens = sequence.prompt_tokens;
        let mut drafter = Drafter::new(draft, model, options, prompt_tokens)?;
        // The last new token is returned, not fed back.
        let mut cache = model.new_cache_in(options.cache_format, 1, prompt_tokens + options.max_new_tokens - 1)?;
        let mut sampler = Sampler::default();
        let eos = model.info().eos_token_ids.as_slice();
        let stops = options.stops(eos);
        let (mut passes, mut checked, mut accepted) = (0, 0, 0);
        'passes: loop {
            let room = options.max_new_tokens - sequence.new_tokens();
            let guessed = drafter.guess(&sequence, guesses.min(room - 1))?;
            let input = [&sequence.ids[cache.past_len()..], &guessed].concat();
            let positions = LogitPositions::LastN(guessed.len() + 1);
            let logits = model.forward(&TokenBatch::single(&input)?, Some(&mut cache), positions)?;
            passes += 1;
            for at in 0..=guessed.len() {
                let token = sequence.choose(&mut sampler, options, logits.row(0, at), eos)?;
                let is_right = guessed.get(at) == Some(&token);
                checked += usize::from(at < guessed.len());
                accepted += usize::from(is_right);
                if sequence.ends(stops, false, options.max_new_tokens) {
                    break 'passes;
                }
                if !is_right {
                    break;
                }
            }
            // Keys and values of wrong guesses go; those of the last token are computed with what comes next.
            model.truncate(&mut cache, sequence.ids.len() - 1)?;
        }
        Ok(Speculative { generated: sequence.finish(), passes, checked, accepted })
    }
}

/// What makes guesses.
enum Drafter<'a> {
    Lookup { ngram: usize },
    Model(Box<DraftModel<'a>>),
}

impl<'a> Drafter<'a> {
    fn new(
        draft: Draft<'a>,
        target: &dyn CausalLm,
        options: &'a GenerateOptions,
        prompt_tokens: usize,
    ) -> Result<Self> {
        let model = match draft {
            Draft::PromptLookup { ngram: 0 } => return Err(Error::input("`ngram` is 0; it must be at least 1")),
            Draft::PromptLookup { ngram } => return Ok(Self::Lookup { ngram }),
            Draft::Model(model) => model,
        };
        let (of_draft, of_target) = (model.info(), target.info());
        if of_draft.vocab_size != of_target.vocab_size {
            return Err(Error::input(format!(
                "the draft model has a vocabulary of {} tokens, the model one of {}",
                of_draft.vocab_size, of_target.vocab_size
            ))
            .hint("a token's number means the same to both only if they have the same tokenizer"));
        }
        let capacity = (prompt_tokens + options.max_new_tokens).min(of_draft.context_len);
        let cache = model.new_cache_in(options.cache_format, 1, capacity)?;
        let (seen, sampler) = (Vec::new(), Sampler::default());
        Ok(Self::Model(Box::new(DraftModel { model, cache, seen, options, sampler })))
    }

    /// At most `count` tokens that may come next.
    fn guess(&mut self, sequence: &Sequence, count: usize) -> Result<Vec<u32>> {
        match self {
            Self::Lookup { ngram } => Ok(looked_up(&sequence.ids, *ngram, count).to_vec()),
            Self::Model(model) => model.guess(sequence, count),
        }
    }
}

/// A draft model, and the tokens whose keys and values it has.
struct DraftModel<'a> {
    model: &'a dyn CausalLm,
    cache: KvCache,
    seen: Vec<u32>,
    options: &'a GenerateOptions,
    sampler: Sampler,
}

impl DraftModel<'_> {
    /// Goes on as the text would, with the same random numbers.
    fn guess(&mut self, text: &Sequence, count: usize) -> Result<Vec<u32>> {
        let tokens = text.ids.len();
        let count = count.min((self.cache.capacity() + 1).saturating_sub(tokens));
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut next = self.seen.iter().zip(&text.ids[..tokens - 1]).take_while(|(a, b)| a == b).count();
        self.model.truncate(&mut self.cache, next)?;
        let mut text = text.clone();
        let eos = self.model.info().eos_token_ids.as_slice();
        for _ in 0..count {
            let input = TokenBatch::single(&text.ids[next..])?;
            let logits = self.model.forward(&input, Some(&mut self.cache), LogitPositions::Last)?;
            next = text.ids.len();
            text.choose(&mut self.sampler, self.options, logits.row(0, 0), eos)?;
        }
        self.seen = text.ids[..next].to_vec();
        Ok(text.ids.split_off(tokens))
    }
}

/// What followed the last earlier place of the longest run of last tokens, at most `ngram` of them, that stood there before.
fn looked_up(ids: &[u32], ngram: usize, count: usize) -> &[u32] {
    for length in (1..=ngram.min(ids.len().saturating_sub(1))).rev() {
        let (before, run) = (&ids[..ids.len() - 1], &ids[ids.len() - length..]);
        if let Some(start) = before.windows(length).rposition(|window| window == run) {
            let follows = &ids[start + length..];
            return &follows[..count.min(follows.len())];
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_longest_known_run_is_guessed() {
        let ids = [1, 2, 3, 9, 2, 3, 7, 5, 1, 2, 3];
        assert_eq!(looked_up(&ids, 3, 2), [9, 2], "after 1 2 3");
        assert_eq!(looked_up(&ids, 2, 4), [7, 5, 1, 2], "the last place of 2 3");
        assert_eq!(looked_up(&ids, 1, 9), [7, 5, 1, 2, 3], "no more than there are");
        assert_eq!(looked_up(&[4, 4], 3, 3), [4], "a run may reach into its own end");
        assert_eq!(looked_up(&[1, 2, 3], 3, 3), [] as [u32; 0]);
        assert_eq!(looked_up(&[1], 3, 3), [] as [u32; 0]);
        assert_eq!(looked_up(&ids, 3, 0), [] as [u32; 0]);
    }
}
