//! What to generate: how many tokens, how each is chosen, where to stop.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::CacheFormat;

/// How text is generated. `GenerateOptions::default()`: 50 tokens, the most likely one each time, with the
/// cache.
///
/// Names and meanings are those of transformers' `generate`. Unlike there, `top_k` keeps all tokens
/// unless told otherwise, and a value that is not allowed is an error, not a warning.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GenerateOptions {
    /// At most this many new tokens; at least 1.
    pub max_new_tokens: usize,
    /// No token that ends a text is chosen before there are this many new tokens, whether or not it would stop the
    /// generation. (transformers ignores it if no token stops the generation.)
    pub min_new_tokens: usize,
    /// Whether a token that ends a text stops the generation. If not, it is a token like any other.
    pub stop_at_eos: bool,
    /// Generation stops when the new text contains one of these.
    pub stop_strings: Vec<String>,
    /// Whether tokens are drawn at random, by their probabilities. If not, the most likely one is taken
    /// each time (greedy), and `temperature`, `top_k`, `top_p` and `seed` have no effect, but must be allowed values.
    pub do_sample: bool,
    /// What logits are divided by before they become probabilities: below 1 favours likely tokens, above 1 makes
    /// probabilities more even. Above 0.
    pub temperature: f64,
    /// Draw among this many of the most likely tokens, and those as likely as the last of them; all if
    /// `None`. At least 1.
    pub top_k: Option<usize>,
    /// Draw among the fewest tokens, likely ones first, whose probabilities add up to this much; all if
    /// 1. Above 0, at most 1.
    pub top_p: f64,
    /// The logit of a token that already occurs in the prompt or the new text is divided by this if it is
    /// positive, and multiplied by it if it is negative: above 1 discourages repetition. Above 0. (It makes no logit
    /// infinite.)
    pub repetition_penalty: f64,
    /// Seed of the random numbers. Sequence `i` of a batch draws from a stream of its own that depends on
    /// this and `i` alone, one number per token.
    pub seed: u64,
    /// Whether keys and values of earlier tokens are kept. If not, every token is computed again for each
    /// one that follows: more slowly, and the same text, if `cache_format` is `None`.
    pub use_cache: bool,
    /// The format of these keys and values: fewer bits take less memory, and less reading, and give other logits. `None`
    /// for float32 on the CPU, whatever the precision of the weights, and for that precision on a GPU.
    pub cache_format: Option<CacheFormat>,
    /// At which end the shorter prompts of a batch are padded. The tokens are the same either way; of this and of
    /// `use_cache` there are the exceptions that [`CausalLm::forward`](crate::model::CausalLm::forward) names.
    pub padding_side: PaddingSide,
    /// Whether a prompt that leaves no room for the new tokens loses its first tokens (transformers'
    /// `truncation_side="left"`). If not, it is an error.
    pub truncation: bool,
}

/// The end at which the shorter prompts of a batch are padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PaddingSide {
    /// Before the prompt, so that all prompts end together: usual for generating.
    #[default]
    Left,
    /// After the prompt. With a cache, the padding stays between the prompt and its new tokens.
    Right,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            max_new_tokens: 50,
            min_new_tokens: 0,
            stop_at_eos: true,
            stop_strings: Vec::new(),
            do_sample: false,
            temperature: 1.0,
            top_k: None,
            top_p: 1.0,
            repetition_penalty: 1.0,
            seed: 0,
            use_cache: true,
            cache_format: None,
            padding_side: PaddingSide::default(),
            truncation: false,
        }
    }
}

impl GenerateOptions {
    /// Checks that every option has a value that its documentation allows.
    ///
    /// # Errors
    /// The first option that does not; the error names it, with its value and what is allowed.
    pub fn check(&self) -> Result<()> {
        let Self { max_new_tokens, min_new_tokens, temperature, top_p, repetition_penalty, .. } = *self;
        if max_new_tokens == 0 {
            return Err(Error::input("`max_new_tokens` is 0; it must be at least 1"));
        }
        if min_new_tokens > max_new_tokens {
            return Err(Error::input(format!(
                "`min_new_tokens` is {min_new_tokens}; it must be at most `max_new_tokens`, which is {max_new_tokens}"
            )));
        }
        if let Some(i) = self.stop_strings.iter().position(String::is_empty) {
            return Err(Error::input(format!("`stop_strings[{i}]` is \"\"; it must have at least one character"))
                .hint("every text contains the empty string; leave it out"));
        }
        if !is_positive(temperature) {
            return Err(Error::input(format!("`temperature` is {temperature}; it must be a finite number above 0"))
                .hint("for the most likely token each time, set `do_sample` to false, and leave this at 1"));
        }
        if self.top_k == Some(0) {
            return Err(Error::input("`top_k` is 0; it must be at least 1").hint("`None` keeps all tokens"));
        }
        if !is_positive(top_p) || top_p > 1.0 {
            return Err(Error::input(format!("`top_p` is {top_p}; it must be above 0 and at most 1"))
                .hint("it is a probability; 1 keeps all tokens"));
        }
        // Logits are float32, and so is what they are multiplied by.
        if !is_positive(f64::from(repetition_penalty as f32)) {
            return Err(Error::input(format!(
                "`repetition_penalty` is {repetition_penalty}; it must be a finite number above 0"
            ))
            .hint("1 changes nothing, 1.2 discourages repetition"));
        }
        Ok(())
    }

    /// Of the tokens that end a text by its model, those that do.
    pub(crate) fn stops<'a>(&self, eos: &'a [u32]) -> &'a [u32] {
        if self.stop_at_eos { eos } else { &[] }
    }

    /// Makes sure that nothing needs text, where there are only token ids.
    pub(crate) fn check_without_text(&self) -> Result<()> {
        if self.stop_strings.is_empty() {
            return Ok(());
        }
        Err(Error::input("`stop_strings` is set, but token ids have no text to search")
            .hint("use `generate` or `generate_batch`, which decode the tokens"))
    }

    /// The part of a prompt that is used: all of it, or with `truncation` its last tokens if there are
    /// too many.
    ///
    /// # Errors
    /// No tokens, or no room in the model's context for the prompt and `max_new_tokens` more.
    pub(crate) fn fit<'a>(&self, prompt: &'a [u32], context_len: usize) -> Result<&'a [u32]> {
        let n = self.max_new_tokens;
        if prompt.is_empty() {
            return Err(Error::input("the prompt is empty").hint("give at least one token to continue from"));
        }
        let room = context_len.saturating_sub(n);
        if room == 0 {
            return Err(Error::input(format!(
                "`max_new_tokens` is {n}; it must be below the model's context of {context_len}, which holds the prompt too"
            )));
        }
        if prompt.len() > room && !self.truncation {
            return Err(Error::input(format!(
                "the prompt's {} tokens and {n} new ones exceed the model's context of {context_len}",
                prompt.len()
            ))
            .hint("use a shorter prompt or a smaller `max_new_tokens`, or set `truncation` to keep the prompt's end"));
        }
        Ok(&prompt[prompt.len().saturating_sub(room)..])
    }
}

fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default() -> GenerateOptions {
        GenerateOptions::default()
    }

    #[test]
    fn what_is_not_allowed_is_named_with_its_value() {
        let wrong = [
            (GenerateOptions { max_new_tokens: 0, ..default() }, "`max_new_tokens` is 0; it must be at least 1"),
            (
                GenerateOptions { max_new_tokens: 8, min_new_tokens: 9, ..default() },
                "`min_new_tokens` is 9; it must be at most `max_new_tokens`, which is 8",
            ),
            (
                GenerateOptions { stop_strings: vec!["a".to_owned(), String::new()], ..default() },
                "`stop_strings[1]` is \"\"; it must have at least one character",
            ),
            (GenerateOptions { temperature: 0.0, ..default() }, "`temperature` is 0; it must be a finite number"),
            (GenerateOptions { temperature: -0.5, ..default() }, "`temperature` is -0.5;"),
            (GenerateOptions { temperature: f64::NAN, ..default() }, "`temperature` is NaN;"),
            (GenerateOptions { temperature: f64::INFINITY, ..default() }, "`temperature` is inf;"),
            (GenerateOptions { top_k: Some(0), ..default() }, "`top_k` is 0; it must be at least 1"),
            (GenerateOptions { top_p: 0.0, ..default() }, "`top_p` is 0; it must be above 0 and at most 1"),
            (GenerateOptions { top_p: 1.01, ..default() }, "`top_p` is 1.01;"),
            (GenerateOptions { top_p: f64::NAN, ..default() }, "`top_p` is NaN;"),
            (GenerateOptions { repetition_penalty: 0.0, ..default() }, "`repetition_penalty` is 0;"),
            (GenerateOptions { repetition_penalty: f64::NAN, ..default() }, "`repetition_penalty` is NaN;"),
            (GenerateOptions { repetition_penalty: 1e39, ..default() }, "`repetition_penalty` is 1000000"),
        ];
        for (options, expected) in wrong {
            let error = options.check().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn the_ends_of_what_is_allowed_are_allowed() {
        let ends = GenerateOptions {
            max_new_tokens: 1,
            min_new_tokens: 1,
            top_k: Some(1),
            top_p: f64::MIN_POSITIVE,
            temperature: f64::MIN_POSITIVE,
            repetition_penalty: f32::MAX.into(),
            ..default()
        };
        assert!(default().check().is_ok() && ends.check().is_ok());
        assert!(GenerateOptions { top_p: 1.0, top_k: Some(usize::MAX), ..default() }.check().is_ok());
    }

    #[test]
    fn prompts_fit_or_say_why_not() {
        let fit = |len: u32, max_new_tokens, truncation| {
            let prompt: Vec<u32> = (0..len).collect();
            let options = GenerateOptions { max_new_tokens, truncation, ..default() };
            options.fit(&prompt, 16).map(<[u32]>::to_vec).map_err(|error| error.to_string())
        };
        assert_eq!(fit(10, 6, false), Ok((0..10).collect()));
        let error = fit(10, 7, false).unwrap_err();
        assert!(error.contains("10 tokens and 7 new ones") && error.contains("context of 16"), "{error}");
        assert_eq!(fit(10, 7, true), Ok((1..10).collect()));
        assert_eq!(fit(10, 15, true), Ok(vec![9]));
        assert_eq!(fit(3, 7, true), Ok(vec![0, 1, 2]));
        for max_new_tokens in [16, 17, usize::MAX] {
            assert!(
                fit(1, max_new_tokens, true).unwrap_err().contains(&format!("`max_new_tokens` is {max_new_tokens};"))
            );
        }
        assert!(fit(0, 1, true).unwrap_err().contains("the prompt is empty"));
    }
}
