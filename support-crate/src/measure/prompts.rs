//! What is given to a model to be timed.

use crate::error::Result;
use crate::model::Tokenizer;

/// One prompt, or several that go through the model as one batch: text, or [`TokenIds`] where lengths must be exact.
///
/// Of prompts of different lengths, the shorter ones are padded on the left, which costs time: prompts of equal length
/// show what batching itself gains.
pub trait Prompts {
    /// The ids of each prompt's tokens.
    ///
    /// # Errors
    /// The tokenizer cannot represent a text.
    fn token_ids(&self, tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>>;
}

/// Prompts as the ids of their tokens.
#[derive(Debug, Clone, Copy)]
pub struct TokenIds<'a>(pub &'a [Vec<u32>]);

impl Prompts for TokenIds<'_> {
    fn token_ids(&self, _: &Tokenizer) -> Result<Vec<Vec<u32>>> {
        Ok(self.0.to_vec())
    }
}

impl Prompts for &str {
    fn token_ids(&self, tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>> {
        Ok(vec![tokenizer.encode(self)?])
    }
}

impl Prompts for &String {
    fn token_ids(&self, tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>> {
        self.as_str().token_ids(tokenizer)
    }
}

impl<T: AsRef<str>> Prompts for &[T] {
    fn token_ids(&self, tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>> {
        self.iter().map(|prompt| tokenizer.encode(prompt.as_ref())).collect()
    }
}

impl<T: AsRef<str>> Prompts for &Vec<T> {
    fn token_ids(&self, tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>> {
        self.as_slice().token_ids(tokenizer)
    }
}

impl<T: AsRef<str>, const N: usize> Prompts for &[T; N] {
    fn token_ids(&self, tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>> {
        self.as_slice().token_ids(tokenizer)
    }
}
