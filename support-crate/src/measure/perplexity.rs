//! How well a model predicts a text.

use std::fmt;

use serde::Serialize;

use super::RunInfo;
use crate::error::{Error, Result};
use crate::model::{CausalLm, Loaded, LogitPositions, TokenBatch};

/// How a text longer than the model's context is cut.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PerplexityOptions {
    /// Tokens that the model sees at once; the model's context if `None`.
    pub window: Option<usize>,
    /// How far each window is moved; half a window if `None`. A smaller stride gives every token more
    /// context and takes longer. Each token is scored once, whatever the stride.
    pub stride: Option<usize>,
}

/// How well a model predicts a text: the lower, the better.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Perplexity {
    /// `exp(mean_nll)`: as uncertain as a choice among this many tokens.
    pub perplexity: f64,
    /// Mean negative log-likelihood of a token, in nats; each token counts the same.
    pub mean_nll: f64,
    /// Bits that a compressor with this model would need for each byte: comparable between tokenizers.
    /// Of token ids without a text there is none.
    pub bits_per_byte: Option<f64>,
    /// Tokens that were predicted: all but the first of each text.
    pub tokens: usize,
    /// Bytes of text that these stand for.
    pub bytes: Option<usize>,
    /// What was measured on.
    pub run: RunInfo,
}

/// The perplexity of some texts, each on its own: the first token of a text is not predicted.
///
/// The mean is over all tokens of all texts and equals the loss that transformers computes with
/// `labels=input_ids`. Long texts are read in overlapping windows.
///
/// # Errors
/// No text with at least two tokens, a stride or window that does not fit, or a model that predicts NaN.
pub fn perplexity(loaded: &Loaded, texts: &[&str], options: &PerplexityOptions) -> Result<Perplexity> {
    let mut bytes = 0;
    let mut sequences = Vec::with_capacity(texts.len());
    for text in texts {
        let (ids, first_len) = loaded.tokenizer.encode_with_first_len(text)?;
        bytes += text.len().saturating_sub(first_len);
        sequences.push(ids);
    }
    let mut result = perplexity_of_tokens(loaded, &sequences, options)?;
    let total_bits = result.mean_nll * result.tokens as f64 / std::f64::consts::LN_2;
    result.bits_per_byte = (bytes > 0).then(|| total_bits / bytes as f64);
    result.bytes = Some(bytes);
    Ok(result)
}

/// As [`perplexity`], for texts that are token ids already; without bits per byte.
///
/// # Errors
/// As [`perplexity`].
pub fn perplexity_of_tokens(
    loaded: &Loaded,
    sequences: &[Vec<u32>],
    options: &PerplexityOptions,
) -> Result<Perplexity> {
    let model = &*loaded.model;
    let cut = Cut::new(options, model.info().context_len)?;
    let mut sum = 0.0;
    let mut tokens = 0;
    for sequence in sequences {
        for window in cut.windows(sequence.len()) {
            sum += window_nll(model, &sequence[window.start..window.end], window.unscored)?;
            tokens += window.end - window.start - window.unscored;
        }
    }
    if tokens == 0 {
        return Err(Error::input("there is nothing to predict").hint("give a text of at least two tokens"));
    }
    let mean_nll = sum / tokens as f64;
    if !mean_nll.is_finite() {
        return Err(Error::system(format!("the model's mean loss is {mean_nll}"))
            .hint("its weights may be damaged, or overflow in this precision"));
    }
    Ok(Perplexity {
        perplexity: mean_nll.exp(),
        mean_nll,
        bits_per_byte: None,
        tokens,
        bytes: None,
        run: RunInfo::of(loaded),
    })
}

/// The sum of the negative log-likelihoods of the tokens after the first `unscored`, in nats.
fn window_nll(model: &dyn CausalLm, ids: &[u32], unscored: usize) -> Result<f64> {
    let logits = model.forward(&TokenBatch::single(ids)?, None, LogitPositions::All)?;
    Ok((unscored..ids.len()).map(|t| nll(logits.row(0, t - 1), ids[t])).sum())
}

/// `-log softmax(logits)[token]`, in double precision and without overflow.
fn nll(logits: &[f32], token: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
    sum.ln() - f64::from(logits[token as usize] - largest)
}

struct Cut {
    window: usize,
    stride: usize,
}

/// Tokens `start..end` of a sequence, of which the first `unscored` are context only.
#[derive(Debug, PartialEq, Eq)]
struct Window {
    start: usize,
    end: usize,
    unscored: usize,
}

impl Cut {
    fn new(options: &PerplexityOptions, context_len: usize) -> Result<Self> {
        let window = options.window.unwrap_or(context_len);
        if window < 2 || window > context_len {
            return Err(Error::input(format!(
                "a window of {window} tokens; it must lie between 2 and the model's context of {context_len}"
            )));
        }
        let stride = options.stride.unwrap_or(window / 2);
        // Each window needs a token of context for the first one that it scores.
        if stride == 0 || stride >= window {
            return Err(Error::input(format!("a stride of {stride} tokens; it must lie between 1 and {}", window - 1)));
        }
        Ok(Self { window, stride })
    }

    /// Windows that together score every token of a sequence but its first, each once.
    fn windows(&self, len: usize) -> Vec<Window> {
        let mut windows = Vec::new();
        let (mut start, mut scored) = (0, 1);
        while scored < len {
            let end = len.min(start + self.window);
            windows.push(Window { start, end, unscored: scored - start });
            scored = end;
            start += self.stride;
        }
        windows
    }
}

impl fmt::Display for Perplexity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "perplexity {:.3} over {} tokens", self.perplexity, self.tokens)?;
        if let Some(bits) = self.bits_per_byte {
            write!(f, ", {bits:.3} bits per byte")?;
        }
        write!(f, " | {}", self.run)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uniform_logits_give_the_size_of_the_vocabulary() {
        assert!((nll(&[7.5; 384], 3).exp() - 384.0).abs() < 1e-9);
        assert!((nll(&[-1e30, 0.0], 1)).abs() < 1e-12);
        assert!(nll(&[f32::NAN, 0.0], 1).is_nan());
    }

    #[test]
    fn a_short_text_is_one_window() {
        let cut = Cut { window: 8, stride: 4 };
        assert_eq!(cut.windows(5), [Window { start: 0, end: 5, unscored: 1 }]);
        assert_eq!(cut.windows(1), []);
        assert_eq!(cut.windows(0), []);
    }

    #[test]
    fn windows_that_do_not_fit_are_refused() {
        let cut = |window, stride| Cut::new(&PerplexityOptions { window, stride }, 64);
        assert!(cut(None, None).is_ok());
        assert!(cut(Some(65), None).is_err());
        assert!(cut(Some(1), None).is_err());
        assert!(cut(Some(8), Some(8)).is_err());
        assert!(cut(Some(8), Some(0)).is_err());
    }

    proptest! {
        #[test]
        fn every_token_but_the_first_is_scored_once(len in 0..500_usize, window in 2..64_usize, stride in 1..64_usize) {
            prop_assume!(stride < window);
            let windows = Cut { window, stride }.windows(len);
            let scored: Vec<usize> = windows.iter().flat_map(|w| w.start + w.unscored..w.end).collect();
            prop_assert_eq!(scored, (1..len).collect::<Vec<_>>());
            prop_assert!(windows.iter().all(|w| w.end - w.start <= window && w.unscored >= 1));
        }
    }
}
