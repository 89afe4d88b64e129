//! Checks of lesson 1: latency and precision.

mod cache;
mod dtype;
mod evidence;
mod findings;
mod lengths;
mod limit;
mod loading;
mod models;
mod plots;
mod precision;
mod report;
mod self_checks;
mod timing;
mod trend;

use serde::Serialize;

/// What all lessons have.
#[doc(no_inline)]
pub use crate::{Claims, Complaint, MachineCard, Prediction, SavedAs, Score, ask, attempt, attempt_or, claim};
pub use cache::{check_run_with_and_without_cache, check_tokens_computed};
pub use dtype::check_resolve_dtype;
pub use findings::{cache_saves, decode_rate, drift_summary, latency_summary, longest_to_shortest, times_as_fast};
pub use lengths::check_run_for_varied_lengths;
pub use limit::check_part_of_limit;
pub use loading::check_load_model_and_tokenizer;
pub use models::{large_model, on_each_engine, texts_in_each_precision};
pub use plots::{cache_savings_plot, latency_plot, precision_plot, runs_plot, throughput_plot};
pub use precision::check_run_varied_precision;
pub use report::{
    cache_table, dtype_table, engines_claim, engines_table, latency_formula_table, lengths_table, precision_table,
    prefill_table,
};
pub use self_checks::{self_check_cache, self_check_lengths, self_check_precision};
pub use timing::check_time_generate;
pub use trend::check_pairs_in_order;

use quantlab::error::Result;
use quantlab::measure::{Runs, Statistics};
use quantlab::model::Device;

/// The settings of the two sweeps, all in one place: what changes from row to row, and what stays the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SweepConfig {
    /// Lengths of the prompts, in tokens: the rows of the prompt-length sweep.
    pub prompt_lengths: Vec<usize>,
    /// Precisions by name: the rows of the precision sweep.
    pub precisions: Vec<&'static str>,
    /// Where the models compute.
    pub device: Device,
    /// New tokens of every run.
    pub max_new_tokens: usize,
    /// Whether keys and values of earlier tokens are kept.
    pub use_cache: bool,
    /// Timed runs of every row.
    pub repeats: usize,
}

/// One point of a prompt-length sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LengthRun {
    /// Length of the prompt, in tokens.
    pub prompt_tokens: usize,
    /// The timed runs.
    pub runs: Runs,
}

/// What the KV cache saves after one prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheRun {
    /// Length of the prompt, in tokens.
    pub prompt_tokens: usize,
    /// The timed runs with the cache.
    pub with_cache: Runs,
    /// Those without, made in turn with the others.
    pub without_cache: Runs,
}

/// One row of a precision sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrecisionRun {
    /// The precision that was really used, in words.
    pub label: String,
    /// Weights that the model reads for each token, in bytes.
    pub bytes_per_token: usize,
    /// The timed runs.
    pub runs: Runs,
    /// The bandwidth of memory in the round of each run, in 10^9 bytes per second.
    pub gb_per_s: Vec<f64>,
}

impl PrecisionRun {
    /// The median bandwidth of memory over the rounds, in 10^9 bytes per second; NaN without one.
    pub fn bandwidth(&self) -> f64 {
        Statistics::of(&self.gb_per_s).map_or(f64::NAN, |memory| memory.median)
    }

    /// How many times the throughput of `base` this row has, round by round: what slows a whole round down cancels out.
    ///
    /// # Errors
    /// The rows have no rounds in common.
    pub fn speed_up_over(&self, base: &Self) -> Result<Statistics> {
        base.runs.ratio_to(&self.runs)
    }
}
