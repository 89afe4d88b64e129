//! Prompts of a given length.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::model::Loaded;

/// A prompt and its length.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Its length in the model's tokens.
    pub tokens: usize,
}

/// Repeats `base` until it is `tokens` tokens long, or the first length beyond: as few times as that takes.
///
/// # Errors
/// An empty base, or one whose repetition does not make the prompt longer; a length of zero, or one that leaves no room for a
/// new token in the model's context.
pub fn prompt_of_tokens(loaded: &Loaded, base: &str, tokens: usize) -> Result<Prompt> {
    let count = |text: &str| loaded.tokenizer.encode(text).map(|ids| ids.len());
    let base_tokens = count(base)?;
    if base.is_empty() || base_tokens == 0 || tokens == 0 {
        return Err(Error::input(format!("repeating {base:?} does not make a prompt of {tokens} tokens"))
            .hint("give a sentence, and a length of at least one token"));
    }
    let context_len = loaded.model.info().context_len;
    let check_room = |tokens: usize| {
        if tokens < context_len {
            return Ok(());
        }
        Err(Error::input(format!("a prompt of {tokens} tokens leaves no room in the model's context of {context_len}")))
    };
    check_room(tokens)?;
    // Tokens can merge where two copies meet, so the length is counted, not computed.
    let mut repeats = tokens.div_ceil(base_tokens);
    let mut longest = 0;
    loop {
        let text = base.repeat(repeats);
        let length = count(&text)?;
        if length >= tokens {
            let mut prompt = Prompt { text, tokens: length };
            // Where copies meet, there may also be more tokens than in the two alone, and fewer copies enough.
            while repeats > 1 {
                repeats -= 1;
                let text = base.repeat(repeats);
                match count(&text)? {
                    fewer if fewer >= tokens => prompt = Prompt { text, tokens: fewer },
                    _ => break,
                }
            }
            check_room(prompt.tokens)?;
            return Ok(prompt);
        }
        if length <= longest {
            return Err(Error::input(format!(
                "repeating {base:?} does not make the prompt longer than {length} tokens"
            ))
            .hint("give a sentence that the tokenizer does not drop"));
        }
        longest = length;
        repeats += (tokens - length).div_ceil(base_tokens);
    }
}
