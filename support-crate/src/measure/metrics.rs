//! The key figures of one timed generation, and of several of the same kind.

use serde::Serialize;

use super::Statistics;
use crate::error::{Error, Result};
use crate::interrupt;

/// What timing one generation gives. All zero: nothing was timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// From the prompt's tokens to the last new token, in seconds.
    pub total_latency_s: f64,
    /// New tokens; those of the prompt do not count.
    pub tokens_generated: usize,
    /// New tokens per second.
    pub tokens_per_sec: f64,
    /// Milliseconds per new token.
    pub avg_latency_per_token_ms: f64,
}

impl Metrics {
    /// The figures of a run that took this many seconds. Of no tokens, the two that count tokens are 0.
    pub fn of(tokens_generated: usize, total_latency_s: f64) -> Self {
        Self {
            total_latency_s,
            tokens_generated,
            tokens_per_sec: rate(tokens_generated, total_latency_s),
            avg_latency_per_token_ms: if tokens_generated == 0 {
                0.0
            } else {
                1e3 * total_latency_s / tokens_generated as f64
            },
        }
    }
}

/// Tokens per second; 0 if nothing was timed.
pub(super) fn rate(tokens: usize, seconds: f64) -> f64 {
    if tokens == 0 || seconds <= 0.0 { 0.0 } else { tokens as f64 / seconds }
}

/// Several timed runs of the same thing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Runs {
    /// Each run, in order.
    pub runs: Vec<Metrics>,
    /// Statistics of `total_latency_s`.
    pub latency_s: Statistics,
    /// Statistics of `tokens_per_sec`.
    pub tokens_per_s: Statistics,
    /// Statistics of `avg_latency_per_token_ms`.
    pub per_token_ms: Statistics,
}

/// Calls `run` this many times and keeps what each call gave; a single time says nothing about the next one.
///
/// ```
/// use quantlab::measure::{Metrics, repeat};
///
/// let mut times = [0.5, 0.4, 0.6].into_iter();
/// let runs = repeat(3, || Ok(Metrics::of(10, times.next().unwrap())))?;
/// assert_eq!(runs.latency_s.median, 0.5);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// The first error of `run`; no repeats; a figure that is not finite.
pub fn repeat(repeats: usize, mut run: impl FnMut() -> Result<Metrics>) -> Result<Runs> {
    if repeats == 0 {
        return Err(
            Error::input("`repeats` is 0").hint("run it at least once; six or more runs give a useful interval")
        );
    }
    Runs::of((0..repeats).map(|_| interrupt::check().and_then(|()| run())).collect::<Result<_>>()?)
}

impl Runs {
    /// The statistics of runs that were timed elsewhere.
    ///
    /// # Errors
    /// No runs, or a figure that is not finite.
    pub fn of(runs: Vec<Metrics>) -> Result<Self> {
        let statistics = |figure: fn(&Metrics) -> f64| Statistics::of(&runs.iter().map(figure).collect::<Vec<_>>());
        Ok(Self {
            latency_s: statistics(|run| run.total_latency_s)?,
            tokens_per_s: statistics(|run| run.tokens_per_sec)?,
            per_token_ms: statistics(|run| run.avg_latency_per_token_ms)?,
            runs,
        })
    }

    /// How many times as long these runs took as those of `other`, round by round. If both took turns, what slows a
    /// whole round down cancels out.
    ///
    /// ```
    /// use quantlab::measure::{Metrics, Runs};
    ///
    /// let of = |seconds: &[f64]| Runs::of(seconds.iter().map(|seconds| Metrics::of(10, *seconds)).collect());
    /// assert_eq!(of(&[0.5, 1.0])?.ratio_to(&of(&[0.25, 0.5])?)?.median, 2.0);
    /// assert!(of(&[0.5, 1.0])?.ratio_to(&of(&[0.5])?).is_err());
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// More runs of one than of the other; a ratio that is not finite.
    pub fn ratio_to(&self, other: &Self) -> Result<Statistics> {
        self.paired(other, |run| run.total_latency_s)
    }

    /// How many times as many tokens per second these runs made as others, round by round: what is right where they did not
    /// make equally many.
    ///
    /// # Errors
    /// As [`ratio_to`](Self::ratio_to).
    pub fn rate_to(&self, other: &Self) -> Result<Statistics> {
        self.paired(other, |run| run.tokens_per_sec)
    }

    fn paired(&self, other: &Self, figure: fn(&Metrics) -> f64) -> Result<Statistics> {
        let (runs, others) = (self.runs.len(), other.runs.len());
        if runs != others {
            return Err(Error::input(format!("{runs} runs cannot be compared with {others}"))
                .hint("time what you compare in turns, as `time_in_turn` does: one run of each in every round"));
        }
        let rounds = self.runs.iter().zip(&other.runs);
        Statistics::of(&rounds.map(|(run, other)| figure(run) / figure(other)).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_no_tokens_nothing_is_counted() {
        assert_eq!(Metrics::of(0, 0.0), Metrics::default());
        assert_eq!(Metrics::of(0, 2.0).avg_latency_per_token_ms, 0.0);
    }
}
