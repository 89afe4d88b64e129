//! Runs models on texts: windows in batches, and a result made from the logits for each scored token.

use quantlab_kernels::{thread_scope, threads_granted};

use super::windows::{Cut, Window, batches};
use crate::error::{Error, Result};
use crate::generate::{PaddingSide, padded};
use crate::model::{Loaded, ModelInfo, TokenBatch};
use crate::progress::Progress;

/// How the model reads texts. `PerplexityOptions::default()`: windows as long as the model's context, but at
/// most 2048 tokens, moved by half their length, 8 at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerplexityOptions {
    /// Tokens that the model sees at once; if `None`, as many as its context has, but 2048 at most. A longer
    /// text is cut. The logits of a window take `window * vocab_size * 4` bytes.
    pub window: Option<usize>,
    /// How far each window is moved; half a window if `None`. A smaller stride gives every token more
    /// context and takes longer. Each token is scored once, whatever the stride.
    pub stride: Option<usize>,
    /// Windows that the model reads at once; fewer if their logits would take more than 24 MiB (256 MiB on a
    /// GPU). The result depends on it by no more than float32's rounding, with the exceptions that
    /// [`CausalLm::forward`](crate::model::CausalLm::forward) names.
    pub batch_size: usize,
}

impl Default for PerplexityOptions {
    fn default() -> Self {
        Self { window: None, stride: None, batch_size: 8 }
    }
}

/// The results of all windows.
pub(super) struct Scored<T> {
    /// The result of each window, in the order of the texts, whatever the batches were.
    pub windows: Vec<T>,
    /// Tokens that were predicted.
    pub tokens: usize,
    /// See [`RunInfo::threads_granted`](super::RunInfo::threads_granted).
    pub threads_granted: usize,
}

/// Cuts texts into windows that fit all the models and calls `score` for each batch, which returns one result for each
/// window. Prints its progress from time to time.
///
/// # Errors
/// No text with at least two tokens; a window, stride or batch size that does not fit; those of `score`.
pub(super) fn score_windows<T>(
    what: &'static str,
    models: &[&Loaded],
    sequences: &[Vec<u32>],
    options: &PerplexityOptions,
    score: impl Fn(&TokenBatch, &[&Window<'_>]) -> Result<Vec<T>>,
) -> Result<Scored<T>> {
    let cut = Cut::new(options.window, options.stride, smallest(models, |info| info.context_len))?;
    let windows: Vec<Window<'_>> = sequences.iter().flat_map(|ids| cut.windows(ids)).collect();
    score_in_batches(what, models, &windows, options.batch_size, score)
}

/// As [`score_windows`], for windows that fit all the models.
pub(super) fn score_in_batches<T>(
    what: &'static str,
    models: &[&Loaded],
    windows: &[Window<'_>],
    batch_size: usize,
    score: impl Fn(&TokenBatch, &[&Window<'_>]) -> Result<Vec<T>>,
) -> Result<Scored<T>> {
    if batch_size == 0 {
        return Err(Error::input("`batch_size` is 0").hint("score at least one window at a time"));
    }
    let tokens: usize = windows.iter().map(|window| window.scored().len()).sum();
    if tokens == 0 {
        return Err(Error::input("there is nothing to predict").hint("give a text of at least two tokens"));
    }
    let mut progress = Progress::new(what, tokens, "tokens");
    let mut results: Vec<(usize, T)> = Vec::with_capacity(windows.len());
    let (scored, threads_granted) = threads_granted(|| {
        batches(windows, batch_size, smallest(models, max_tokens)).into_iter().try_for_each(|members| {
            let batch: Vec<&Window<'_>> = members.iter().map(|&index| &windows[index]).collect();
            let ids: Vec<&[u32]> = batch.iter().map(|window| window.ids).collect();
            results.extend(members.iter().copied().zip(score(&padded(&ids, PaddingSide::Right)?, &batch)?));
            progress.advance(batch.iter().map(|window| window.scored().len()).sum());
            Ok::<_, Error>(())
        })
    });
    scored?;
    results.sort_by_key(|&(index, _)| index);
    Ok(Scored { windows: results.into_iter().map(|(_, result)| result).collect(), tokens, threads_granted })
}

/// The least that models allow.
fn smallest(models: &[&Loaded], of: fn(&ModelInfo) -> usize) -> usize {
    models.iter().map(|loaded| of(loaded.model.info())).min().unwrap_or(0)
}

/// The result of `of` for each scored token of each window, computed on all threads. `of` is given the window's row in
/// the batch, the position whose logits predict the token, and the token; `work` is what this takes, in
/// multiplications.
pub(super) fn each_target<T: Send + Clone + Default>(
    windows: &[&Window<'_>],
    work: usize,
    of: &(dyn Fn(usize, usize, u32) -> T + Sync),
) -> Vec<Vec<T>> {
    let targets: Vec<(usize, usize, u32)> = windows
        .iter()
        .enumerate()
        .flat_map(|(row, window)| (window.unscored..window.ids.len()).map(move |t| (row, t - 1, window.ids[t])))
        .collect();
    let mut each = vec![T::default(); targets.len()];
    thread_scope().split_mut(&mut each, 1, work, &|first, each| {
        for (&(row, position, token), each) in targets[first..].iter().zip(each) {
            *each = of(row, position, token);
        }
    });
    let mut each = each.into_iter();
    windows.iter().map(|window| each.by_ref().take(window.scored().len()).collect()).collect()
}

/// How many tokens a batch may have, padding included.
///
/// With a few hundred tokens, a CPU has no more to gain from a batch. But allocators give larger blocks
/// back to the system (glibc: from 32 MiB on), which then has to map them anew for every batch.
fn max_tokens(info: &ModelInfo) -> usize {
    let logit_bytes: usize = if info.device.is_cpu() { 24 << 20 } else { 256 << 20 };
    logit_bytes / (info.vocab_size * size_of::<f32>()).max(1)
}
