//! `four_numbers`: one sum of negative log-likelihoods, by token, word and byte.

use quantlab::error::{Error, Result as Outcome};
use quantlab::measure::{PerplexityOptions, perplexity};
use quantlab::model::Loaded;

use super::trials::{Close, Trial, in_each};
use crate::{Complaint, Score, ask};

/// How well a model predicted a text, read in windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Tokens that the model sees at once.
    pub window: usize,
    /// How far each window is moved.
    pub stride: usize,
    /// The negative log-likelihoods of all tokens that were predicted, added up.
    pub nats: f64,
    /// How many these are: all but the first.
    pub tokens: usize,
    /// The text that they stand for.
    pub text: String,
}

impl Reading {
    /// Reads a text in windows of `window` tokens, each `stride` further than the one before.
    ///
    /// # Errors
    /// As [`perplexity`].
    pub fn of(loaded: &Loaded, text: &str, window: usize, stride: usize) -> Outcome<Self> {
        let options = PerplexityOptions { window: Some(window), stride: Some(stride), ..PerplexityOptions::default() };
        let read = perplexity(loaded, &[text], &options)?;
        let bytes = read.bytes.unwrap_or(0);
        let predicted = text.len().checked_sub(bytes).and_then(|start| text.get(start..));
        let text = predicted.ok_or_else(|| Error::input("its first token ends within a character"))?;
        let nats = read.mean_nll * read.tokens as f64;
        Ok(Self { window, stride, nats, tokens: read.tokens, text: text.to_owned() })
    }
}

const HINTS: [&str; 3] = [
    "What does the same sum of nats become if it is shared among fewer, larger units?",
    "A perplexity is `exp` of nats per unit: per token, per word (what white space separates), per byte (`text.len()`). Bits per \
     byte are nats per byte over the logarithm of 2, without `exp`.",
    "`let per = |units: usize| nats / units as f64;` and `[per(tokens).exp(), per(text.split_whitespace().count()).exp(), \
     per(text.len()).exp(), per(text.len()) / 2.0_f64.ln()]`",
];

/// Checks `four_numbers(nats, tokens, text)`.
pub fn check_four_numbers(yours: fn(f64, usize, &str) -> [f64; 4]) -> Score {
    let cases = [
        (12.0, 6, "It rained all day."),
        (30.5, 9, "  two  spaces,\nand a line\n\n\tbreak "),
        (21.0, 14, "na\u{ef}ve caf\u{e9}s, \u{43f}\u{440}\u{438}\u{432}\u{435}\u{442} \u{1f98a}"),
        (3.3, 1, "one"),
        (810.0, 160, "let x = 1; "),
    ];
    // Which of the four numbers.
    let trials = |part: usize| -> Result<Vec<Trial>, Complaint> {
        let trial = |&(nats, tokens, text): &(f64, usize, &str)| {
            let text = if tokens == 160 { text.repeat(12) } else { text.to_owned() };
            let got = ask(|| Ok(yours(nats, tokens, &text)))?;
            let (words, bytes, characters) = (text.split_whitespace().count(), text.len(), text.chars().count());
            let per = |units: usize| nats / units as f64;
            let (by_token, spaces) = (per(tokens).exp(), text.split(' ').count());
            let mistakes: Vec<(f64, &'static str)> = match part {
                0 => {
                    vec![(per(tokens), NO_EXP), ((tokens as f64 / nats).exp(), UPSIDE_DOWN), (per(tokens).exp2(), NATS)]
                }
                1 => vec![
                    (per(words), NO_EXP),
                    (per(spaces).exp(), "white space is also line breaks, and may come twice: `split_whitespace`"),
                    (by_token * tokens as f64 / words as f64, MEAN_FIRST),
                    (by_token, "a word is not a token"),
                ],
                2 => vec![
                    (per(bytes), NO_EXP),
                    (per(characters).exp(), "bytes, not characters: `text.len()`"),
                    (by_token * tokens as f64 / bytes as f64, MEAN_FIRST),
                ],
                _ => vec![
                    (per(bytes), NATS),
                    (per(bytes) / 2.0, "divide by the logarithm of 2, `2.0_f64.ln()`, not by 2"),
                    (per(characters) / std::f64::consts::LN_2, "bytes, not characters: `text.len()`"),
                    (per(bytes) * std::f64::consts::LN_2, "a nat is more than a bit: divide by the logarithm of 2"),
                    (per(bytes).exp(), "bits per byte are no perplexity: without `exp`"),
                    (per(tokens) / std::f64::consts::LN_2, "per byte, not per token"),
                ],
            };
            let expected = [by_token, per(words).exp(), per(bytes).exp(), per(bytes) / std::f64::consts::LN_2][part];
            Ok(Trial {
                what: format!("{nats} nats, {tokens} tokens, a text of {bytes} bytes"),
                got: vec![got[part]],
                expected: vec![expected],
                mistakes: mistakes.into_iter().map(|(number, why)| (vec![number], why)).collect(),
            })
        };
        cases.iter().map(trial).collect()
    };
    const PARTS: [&str; 4] = ["perplexity per token", "perplexity per word", "perplexity per byte", "bits per byte"];
    PARTS.into_iter().enumerate().fold(Score::new("four_numbers", HINTS), |score, (part, name)| {
        score.point(name, in_each(trials(part), Close::Each(1e-9), |_| name.to_owned()))
    })
}

const NO_EXP: &str = "a perplexity is `exp` of that";
const NATS: &str = "the sum is in nats: `exp`, not `exp2`, and over the logarithm of 2 for bits";
const UPSIDE_DOWN: &str = "nats per unit, not units per nat";
const MEAN_FIRST: &str = "share the nats first, then take `exp`: perplexities cannot be shared";

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{LoadOptions, load_model};

    #[test]
    fn a_reading_has_the_text_of_the_tokens_that_were_predicted() {
        let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let text = "Once upon a time there lived a fisher.";
        let read = Reading::of(&loaded, text, 6, 3).unwrap();
        assert_eq!(read.tokens + 1, loaded.tokenizer.encode(text).unwrap().len());
        assert!(text.ends_with(&read.text) && read.text.len() < text.len() && read.nats > 0.0);
    }
}
