//! A model and a prompt to new text.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::{CausalLm, Loaded, LogitPositions, TokenBatch};

/// How text is generated. `GenerateOptions::default()` gives 50 tokens with the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerateOptions {
    /// At most this many tokens.
    pub max_new_tokens: usize,
    /// The token that ends a text is not chosen before this many tokens.
    pub min_new_tokens: usize,
    /// Whether keys and values of earlier tokens are kept. Without, every token is computed anew for
    /// each one that follows: the same text, more slowly.
    pub use_cache: bool,
    /// Whether the token that ends a text stops the generation.
    pub stop_at_eos: bool,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self { max_new_tokens: 50, min_new_tokens: 0, use_cache: true, stop_at_eos: true }
    }
}

/// Generated text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// What it goes on from.
    pub prompt: String,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// The new tokens, with the one that ended the text if there was one.
    pub tokens: Vec<u32>,
    /// The new tokens as text.
    pub text: String,
}

/// Continues `prompt` with the most likely token, again and again.
///
/// ```
/// use quantlab::generate::{GenerateOptions, generate};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let options = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
/// println!("{}", generate(&loaded, "The capital of France is", &options)?.text);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// An empty prompt, or a prompt that leaves no room for the new tokens in the model's context.
pub fn generate(loaded: &Loaded, prompt: &str, options: &GenerateOptions) -> Result<Generation> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let tokens = greedy(&*loaded.model, &ids, options, &mut |_| ())?;
    let text = loaded.tokenizer.decode(&tokens)?;
    Ok(Generation { prompt: prompt.to_owned(), prompt_tokens: ids.len(), tokens, text })
}

/// Continues token ids with the most likely token, again and again; `on_token` sees each one as soon as
/// it is known.
///
/// # Errors
/// As [`generate`].
pub fn greedy(
    model: &dyn CausalLm,
    prompt: &[u32],
    options: &GenerateOptions,
    on_token: &mut dyn FnMut(u32),
) -> Result<Vec<u32>> {
    check_length(prompt.len(), options.max_new_tokens, model.info().context_len)?;
    let eos = if options.stop_at_eos { model.info().eos_token_id } else { None };
    // The last new token is returned, not fed back.
    let mut cache = match options.use_cache {
        true => Some(model.new_cache(1, prompt.len() + options.max_new_tokens - 1)?),
        false => None,
    };
    let mut sequence = prompt.to_vec();
    let mut computed = 0;
    while sequence.len() < prompt.len() + options.max_new_tokens {
        let new_tokens = TokenBatch::single(&sequence[computed..])?;
        let logits = model.forward(&new_tokens, cache.as_mut(), LogitPositions::Last)?;
        let too_early = sequence.len() < prompt.len() + options.min_new_tokens;
        let token = most_likely(logits.row(0, 0), eos.filter(|_| too_early))?;
        sequence.push(token);
        on_token(token);
        if eos == Some(token) {
            break;
        }
        if cache.is_some() {
            computed = sequence.len() - 1;
        }
    }
    Ok(sequence.split_off(prompt.len()))
}

/// Makes sure that a prompt is one, and that the new tokens fit after it.
pub(crate) fn check_length(prompt_tokens: usize, max_new_tokens: usize, context_len: usize) -> Result<()> {
    if prompt_tokens == 0 {
        return Err(Error::input("the prompt is empty").hint("give at least one token to go on from"));
    }
    if max_new_tokens == 0 {
        return Err(Error::input("`max_new_tokens` is 0").hint("ask for at least one token"));
    }
    if prompt_tokens.saturating_add(max_new_tokens) > context_len {
        return Err(Error::input(format!(
            "the prompt's {prompt_tokens} tokens and {max_new_tokens} new ones are more than the model's context of {context_len}"
        ))
        .hint("use a shorter prompt or a smaller `max_new_tokens`"));
    }
    Ok(())
}

/// The index of the largest logit, the first of equals, other than `forbidden`.
///
/// # Errors
/// All logits are NaN.
fn most_likely(logits: &[f32], forbidden: Option<u32>) -> Result<u32> {
    let mut best: Option<(usize, f32)> = None;
    for (id, &logit) in logits.iter().enumerate() {
        let allowed = forbidden != Some(id as u32);
        if allowed && best.is_none_or(|(_, most)| logit > most) && !logit.is_nan() {
            best = Some((id, logit));
        }
    }
    match best {
        Some((id, _)) => Ok(id as u32),
        None => Err(Error::system("the model's logits are not numbers (NaN)")
            .hint("its weights may be damaged, or overflow in this precision")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equals_wins_and_what_is_forbidden_never() {
        assert_eq!(most_likely(&[0.0, 2.0, 2.0], None).unwrap(), 1);
        assert_eq!(most_likely(&[0.0, 2.0, 2.0], Some(1)).unwrap(), 2);
        assert_eq!(most_likely(&[f32::NAN, -1.0], None).unwrap(), 1);
        assert!(most_likely(&[f32::NAN], None).is_err());
    }

    #[test]
    fn lengths_are_checked_with_their_numbers() {
        assert!(check_length(10, 6, 16).is_ok());
        let error = check_length(10, 7, 16).unwrap_err().to_string();
        assert!(error.contains("10 tokens and 7 new ones") && error.contains("16"), "{error}");
        assert!(check_length(0, 1, 16).unwrap_err().to_string().contains("empty"));
        assert!(check_length(1, 0, 16).is_err());
        assert!(check_length(1, usize::MAX, 16).is_err());
    }
}
