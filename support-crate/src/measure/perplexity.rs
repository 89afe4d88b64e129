//! How well a model predicts a text.

use std::fmt;

use serde::Serialize;

use super::RunInfo;
use super::nll::windows_nll;
use super::scoring::{PerplexityOptions, Scored, score_windows};
use crate::error::Result;
use crate::model::Loaded;

/// How well a model predicts a text: the lower, the better.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Perplexity {
    /// `exp(mean_nll)`: as uncertain as a choice among this many tokens.
    pub perplexity: f64,
    /// Mean negative log-likelihood of a token, in nats; each token counts the same.
    pub mean_nll: f64,
    /// Bits that a compressor with this model would need for each byte: comparable between tokenizers.
    /// `None` for token ids without a text.
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
/// The mean is over all tokens of all texts, so that a long text counts for more than a short one, and
/// equals the loss that transformers computes with `labels=input_ids`. A text longer than the window is
/// read in overlapping windows. A long run reports its progress from time to time.
///
/// ```
/// use quantlab::measure::{PerplexityOptions, perplexity};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let texts = ["Once upon a time there was a fox.", "The end."];
/// let result = perplexity(&loaded, &texts, &PerplexityOptions { batch_size: 2, ..PerplexityOptions::default() })?;
/// assert!((result.perplexity - result.mean_nll.exp()).abs() < 1e-9);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// Source: "Perplexity of fixed-length models" in the documentation of transformers.
///
/// # Errors
/// No text with at least two tokens; a window, stride or batch size that does not fit; a model that
/// predicts NaN, or that gives a token of the text a probability of 0.
pub fn perplexity(loaded: &Loaded, texts: &[impl AsRef<str>], options: &PerplexityOptions) -> Result<Perplexity> {
    let mut bytes = 0;
    let mut sequences = Vec::with_capacity(texts.len());
    for text in texts.iter().map(AsRef::as_ref) {
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
/// As [`perplexity`]; a token that the model does not know.
pub fn perplexity_of_tokens(
    loaded: &Loaded,
    sequences: &[Vec<u32>],
    options: &PerplexityOptions,
) -> Result<Perplexity> {
    let scored = score_windows("perplexity", &[loaded], sequences, options, |tokens, windows| {
        windows_nll(loaded, tokens, windows)
    })?;
    let Scored { windows, tokens, threads_granted } = scored;
    // In the order of the texts, so that the batching does not affect the last digits.
    let mean_nll = windows.iter().sum::<f64>() / tokens as f64;
    Ok(Perplexity {
        perplexity: mean_nll.exp(),
        mean_nll,
        bits_per_byte: None,
        tokens,
        bytes: None,
        run: RunInfo { threads_granted, ..RunInfo::of(loaded) },
    })
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
