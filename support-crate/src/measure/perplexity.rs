//! How well a model predicts a text.

use std::fmt;

use quantlab_kernels::threads_granted;
use serde::Serialize;

use super::RunInfo;
use super::nll::batch_nll;
use super::windows::{Cut, Window, batches};
use crate::error::{Error, Result};
use crate::model::{CausalLm, Loaded, LogitPositions, ModelInfo, TokenBatch};
use crate::progress::Progress;

/// How texts are put before the model. `PerplexityOptions::default()`: the model's context, at most 2048
/// tokens of it, moved by half of that, 8 windows at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerplexityOptions {
    /// Tokens that the model sees at once; if `None`, as many as its context has, but 2048 at most. A longer
    /// text is cut. The logits of a window take `window * vocab_size * 4` bytes.
    pub window: Option<usize>,
    /// How far each window is moved; half a window if `None`. A smaller stride gives every token more
    /// context and takes longer. Each token is scored once, whatever the stride.
    pub stride: Option<usize>,
    /// Windows that the model reads at once; fewer where their logits would take much memory, 24 MiB on a
    /// CPU and 256 MiB elsewhere, and one where it takes no padding. The result depends on it by no more than float32's rounding.
    pub batch_size: usize,
}

impl Default for PerplexityOptions {
    fn default() -> Self {
        Self { window: None, stride: None, batch_size: 8 }
    }
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
/// The mean is over all tokens of all texts, so that a long text counts for more than a short one, and
/// equals the loss that transformers computes with `labels=input_ids`. A text longer than the window is
/// read in overlapping windows. A run of many seconds says from time to time how far it is.
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
/// predicts NaN, or that holds a token for impossible which the text has.
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
    let info = model.info();
    if options.batch_size == 0 {
        return Err(Error::input("`batch_size` is 0").hint("score at least one window at a time"));
    }
    let cut = Cut::new(options.window, options.stride, info.context_len)?;
    let windows: Vec<Window<'_>> = sequences.iter().flat_map(|ids| cut.windows(ids)).collect();
    let tokens: usize = windows.iter().map(|window| window.scored().len()).sum();
    if tokens == 0 {
        return Err(Error::input("there is nothing to predict").hint("give a text of at least two tokens"));
    }
    let mut progress = Progress::new("perplexity", tokens, "tokens");
    let mut sums = vec![0.0; windows.len()];
    let batch_size = if model.padded_batches() { options.batch_size } else { 1 };
    let (scored, threads_granted) = threads_granted(|| {
        batches(&windows, batch_size, max_tokens(info)).into_iter().try_for_each(|members| {
            let batch: Vec<&Window<'_>> = members.iter().map(|&index| &windows[index]).collect();
            for (&index, sum) in members.iter().zip(score(model, &batch)?) {
                sums[index] = sum;
            }
            progress.advance(batch.iter().map(|window| window.scored().len()).sum());
            Ok::<_, Error>(())
        })
    });
    scored?;
    // In the order of the texts, so that the batches cannot show in the last digits.
    let mean_nll = sums.iter().sum::<f64>() / tokens as f64;
    Ok(Perplexity {
        perplexity: mean_nll.exp(),
        mean_nll,
        bits_per_byte: None,
        tokens,
        bytes: None,
        run: RunInfo { threads_granted, ..RunInfo::of(loaded) },
    })
}

/// How many tokens a batch may have, padding included.
///
/// With a few hundred tokens, a CPU has no more to gain from a batch. But allocators give larger blocks
/// back to the system (glibc: from 32 MiB on), which then has to map them anew for every batch.
fn max_tokens(info: &ModelInfo) -> usize {
    let logit_bytes: usize = if info.device.is_cpu() { 24 << 20 } else { 256 << 20 };
    logit_bytes / (info.vocab_size * size_of::<f32>()).max(1)
}

/// The sum of the negative log-likelihoods of each window's scored tokens, in nats.
fn score(model: &dyn CausalLm, windows: &[&Window<'_>]) -> Result<Vec<f64>> {
    let logits = model.forward(&padded(windows)?, None, LogitPositions::All)?;
    let sums = batch_nll(&logits, windows);
    if let Some(sum) = sums.iter().find(|sum| !sum.is_finite()) {
        return Err(Error::system(format!("the model's loss is {sum}"))
            .hint("its weights may be damaged, or overflow in this precision"));
    }
    Ok(sums)
}

/// The windows as one batch, padded on the right.
fn padded(windows: &[&Window<'_>]) -> Result<TokenBatch> {
    let longest = windows.iter().map(|window| window.ids.len()).max().unwrap_or(0);
    let row = |window: &&Window<'_>| {
        let mut ids = window.ids.to_vec();
        // The mask hides it, so any token will do.
        ids.resize(longest, 0);
        ids
    };
    let mask = |window: &&Window<'_>| (0..longest).map(|t| t < window.ids.len()).collect();
    let rows: Vec<Vec<u32>> = windows.iter().map(row).collect();
    let masks: Vec<Vec<bool>> = windows.iter().map(mask).collect();
    TokenBatch::new(&rows)?.with_attention_mask(&masks)
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
