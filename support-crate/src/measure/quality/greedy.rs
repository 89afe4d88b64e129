//! Where the greedy texts of two models diverge.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::generate::{GenerateOptions, GeneratedTokens, generate_tokens};
use crate::model::{CausalLm, Loaded};
use crate::progress::Progress;

/// The prompt is the first half of a text, but no longer than this.
const MAX_PROMPT_TOKENS: usize = 32;

/// New tokens that are compared.
const NEW_TOKENS: usize = 64;

/// How long two models' greedy continuations of a prompt stay the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GreedyDifference {
    /// Tokens of the text that both continued.
    pub prompt_tokens: usize,
    /// New tokens that were compared.
    pub tokens_compared: usize,
    /// Index of the first new token that differs, and so how many are the same before it; `None` if all are the same.
    pub first_difference: Option<usize>,
}

/// Lets two models continue the beginning of each text greedily and says where they diverge. From there on each model
/// continues a text of its own, so that later tokens say little about the models.
///
/// The prompt is the first half of a text, at most 32 tokens; 64 new tokens are compared, fewer if a model ends its text
/// earlier. Models with a context of less than 96 tokens get a prompt of at most half of it, and as many new tokens as are
/// left beside the longest prompt. For an empty text, nothing is compared. `batch_size` prompts are continued at once.
///
/// # Errors
/// A batch size of 0; ids beyond a model's vocabulary; logits that are NaN.
pub fn greedy_differences(
    base: &Loaded,
    other: &Loaded,
    sequences: &[Vec<u32>],
    batch_size: usize,
) -> Result<Vec<GreedyDifference>> {
    let beginnings = Beginnings::of(base, other, sequences);
    let continued = |loaded: &Loaded| beginnings.continued(&*loaded.model, batch_size);
    Ok(beginnings.differences(&continued(base)?, &continued(other)?))
}

/// What two models are to continue.
pub(super) struct Beginnings {
    prompts: Vec<Vec<u32>>,
    /// The most tokens that both models can have before them: the same context gives the same beginnings.
    pub context_len: usize,
}

impl Beginnings {
    pub fn of(base: &Loaded, other: &Loaded, sequences: &[Vec<u32>]) -> Self {
        let context_len = base.model.info().context_len.min(other.model.info().context_len);
        let most = MAX_PROMPT_TOKENS.min(context_len / 2);
        let prompt = |ids: &Vec<u32>| ids[..ids.len().div_ceil(2).min(most)].to_vec();
        Self { prompts: sequences.iter().map(prompt).collect(), context_len }
    }

    /// What a model says after each that is not empty.
    pub fn continued(&self, model: &dyn CausalLm, batch_size: usize) -> Result<Vec<GeneratedTokens>> {
        if batch_size == 0 {
            return Err(Error::input("`batch_size` is 0").hint("continue at least one text at a time"));
        }
        let most = MAX_PROMPT_TOKENS.min(self.context_len / 2);
        let max_new_tokens = NEW_TOKENS.min(self.context_len - most);
        let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
        let prompts: Vec<Vec<u32>> = self.prompts.iter().filter(|prompt| !prompt.is_empty()).cloned().collect();
        let (mut texts, mut progress) = (Vec::new(), Progress::new("greedy texts", prompts.len(), "texts"));
        for batch in prompts.chunks(batch_size) {
            texts.extend(generate_tokens(model, batch, &options, &mut |_, _| ())?);
            progress.advance(batch.len());
        }
        Ok(texts)
    }

    /// Where two models' texts diverge, for each beginning.
    pub fn differences(&self, base: &[GeneratedTokens], other: &[GeneratedTokens]) -> Vec<GreedyDifference> {
        let mut texts = base.iter().zip(other);
        let nothing = GreedyDifference { prompt_tokens: 0, tokens_compared: 0, first_difference: None };
        let next = |prompt: &Vec<u32>| if prompt.is_empty() { None } else { texts.next() };
        self.prompts.iter().map(next).map(|both| both.map_or(nothing, |(a, b)| difference(a, b))).collect()
    }
}

fn difference(base: &GeneratedTokens, other: &GeneratedTokens) -> GreedyDifference {
    let (a, b) = (&base.tokens, &other.tokens);
    let tokens_compared = a.len().min(b.len());
    let differing = a.iter().zip(b).position(|(a, b)| a != b);
    GreedyDifference {
        prompt_tokens: base.prompt_tokens,
        tokens_compared,
        // A text that ends differs from one that goes on.
        first_difference: differing.or((a.len() != b.len()).then_some(tokens_compared)),
    }
}
