//! Rows of tokens to train on: windows of documentation, and generated English.
//!
//! A row is a function of the seed, the step and its number alone, so that training can stop and go on
//! at any step without remembering where a random number generator stood.

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tch::{Device, Tensor};
use tokenizers::Tokenizer;

use crate::corpus::english::English;
use crate::tokenizer;

/// How many of a hundred rows are documentation.
pub const DOCUMENTATION_SHARE: u32 = 62;

/// Makes the batches of a training run.
pub struct Batches {
    documentation: Vec<u32>,
    english: English,
    tokenizer: Tokenizer,
    end_of_text: u32,
    length: usize,
    seed: u64,
}

impl Batches {
    /// Tokenizes the documentation; rows will have `length + 1` tokens.
    pub fn new(tokenizer: Tokenizer, pages: &[String], length: usize, seed: u64) -> Result<Self> {
        let end_of_text = tokenizer::end_of_text(&tokenizer)?;
        let mut documentation = Vec::new();
        for page in pages {
            documentation.extend(tokenizer::encode(&tokenizer, page)?);
            documentation.push(end_of_text);
        }
        ensure!(documentation.len() > length + 1, "there is not enough documentation to train on");
        Ok(Self { documentation, english: English::new(), tokenizer, end_of_text, length, seed })
    }

    /// How many tokens of documentation there are.
    pub fn documentation_tokens(&self) -> usize {
        self.documentation.len()
    }

    /// Inputs and targets of `rows` rows, from row number `first` of a step on.
    pub fn batch(&self, step: u64, first: u64, rows: u64, device: Device) -> Result<(Tensor, Tensor)> {
        let mut tokens = Vec::new();
        for row in first..first + rows {
            tokens.extend(self.row(step, row)?.into_iter().map(i64::from));
        }
        let length = self.length as i64;
        let tokens = Tensor::from_slice(&tokens).reshape([rows as i64, length + 1]);
        let tokens = tokens.to_device(device);
        Ok((tokens.narrow(1, 0, length), tokens.narrow(1, 1, length)))
    }

    fn row(&self, step: u64, row: u64) -> Result<Vec<u32>> {
        // Rows of different steps must not share a generator; 4,096 rows fit into a step.
        let mut rng = StdRng::seed_from_u64((self.seed << 40) ^ (step << 12) ^ row);
        let mut tokens = Vec::with_capacity(self.length + 1);
        // Lessons ask with and without the token that starts a text, so half the rows have it.
        if rng.random_bool(0.5) {
            tokens.push(self.end_of_text);
        }
        if rng.random_range(0..100) < DOCUMENTATION_SHARE {
            let rest = self.length + 1 - tokens.len();
            let start = rng.random_range(0..=self.documentation.len() - rest);
            tokens.extend(&self.documentation[start..start + rest]);
        } else {
            while tokens.len() <= self.length {
                let text = self.english.document(&mut rng);
                tokens.extend(tokenizer::encode(&self.tokenizer, &text)?);
                tokens.push(self.end_of_text);
            }
            tokens.truncate(self.length + 1);
        }
        Ok(tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_depends_on_seed_and_step_and_targets_are_one_ahead() {
        let pages = vec!["The vector grows when it is full. ".repeat(50)];
        let tokenizer = || tokenizer::train(pages.iter().cloned()).expect("a tokenizer");
        let batches = |seed| Batches::new(tokenizer(), &pages, 32, seed).expect("enough text");
        let batch = |seed, step| batches(seed).batch(step, 0, 4, Device::Cpu).expect("rows");
        let (inputs, targets) = batch(1, 1);
        assert_eq!(inputs.size(), [4, 32]);
        assert_eq!(inputs.narrow(1, 1, 31), targets.narrow(1, 0, 31));
        assert_eq!(inputs, batch(1, 1).0);
        assert_ne!(inputs, batch(1, 2).0);
        assert_ne!(inputs, batch(2, 1).0);
    }

    #[test]
    fn too_little_documentation_is_an_error() {
        let tokenizer = tokenizer::train(["a b c".to_owned()].into_iter()).expect("a tokenizer");
        assert!(Batches::new(tokenizer, &["a b".to_owned()], 32, 1).is_err());
    }
}
