//! Checks of lesson 1: latency and precision.

mod dtype;
mod loading;
mod sweeps;
mod timing;

use serde::Serialize;

pub use dtype::check_resolve_dtype;
pub use loading::check_load_model_and_tokenizer;
pub use sweeps::{check_run_for_varied_lengths, check_run_varied_precision};
pub use timing::check_time_generate;

use crate::measure::Runs;

/// One point of a prompt-length sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LengthRun {
    /// Length of the prompt, in tokens.
    pub prompt_tokens: usize,
    /// The timed runs.
    pub runs: Runs,
}

/// One row of a precision sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrecisionRun {
    /// The precision that was really used, in words.
    pub label: String,
    /// The timed runs.
    pub runs: Runs,
}
