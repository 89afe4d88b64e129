//! Checks of lesson 2: quantized inference.

mod ablation;
mod batching;
mod controller;
mod edge;
mod expected;
mod ppl;
mod ptq;
mod report;
mod table;

use std::path::PathBuf;

use serde::Serialize;

pub use ablation::check_ablate_cache_and_padding;
pub use batching::check_measure_batched;
pub use controller::check_run_quantization_exercise;
pub use edge::check_probe_edge_prompts;
pub use ppl::check_compare_ppl;
pub use ptq::check_run_static_ptq;
pub use report::QuantizationReport;
pub use table::check_build_results_table;

use crate::generate::PaddingSide;
use crate::measure::{Runs, Statistics};

/// One setting of the cache and padding ablation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AblationRun {
    /// Whether keys and values of earlier tokens were kept.
    pub use_cache: bool,
    /// Where the shorter prompts of the batch were filled up.
    pub padding_side: PaddingSide,
    /// The timed runs; each counts the new tokens of all sequences.
    pub runs: Runs,
}

impl AblationRun {
    /// The setting in words: `cache on, padding left`.
    pub fn setting(&self) -> String {
        let cache = if self.use_cache { "on" } else { "off" };
        let side = match self.padding_side {
            PaddingSide::Left => "left",
            PaddingSide::Right => "right",
        };
        format!("cache {cache}, padding {side}")
    }
}

/// One batch size: what answering all prompts took, so many at a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchRun {
    /// Prompts that were generated from at once; fewer in the last batch if they do not come out even.
    pub batch_size: usize,
    /// Runs over all prompts; each counts the new tokens of all of them.
    pub runs: Runs,
    /// Of one batch, in seconds: how long each of its prompts waits for its answer.
    pub batch_latency: Statistics,
    /// A run's time shared among all prompts, in seconds: what a prompt costs the machine.
    pub time_per_sample: Statistics,
}

/// How well one model predicts a corpus.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelPpl {
    /// The model, in words.
    pub label: String,
    /// Mean negative log-likelihood of a token, in nats; each token counts the same.
    pub loss: f64,
    /// `exp(loss)`
    pub ppl: f64,
}

/// One row of a results table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScenarioRun {
    /// What is special about it: `baseline`, `cache off, padding left`, `batch 8`.
    pub scenario: String,
    /// The precision of the model, in words.
    pub dtype: String,
    /// The timed runs.
    pub runs: Runs,
    /// Perplexity of the model, where it was measured.
    pub ppl: Option<f64>,
}

/// An unusual prompt, and how generating from it went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EdgeRun {
    /// The kind of prompt: `very short`, `very long`, `multi-line`, `repetitive`.
    pub name: String,
    /// The prompt.
    pub prompt: String,
    /// Its length, in tokens.
    pub prompt_tokens: usize,
    /// The timed runs.
    pub runs: Runs,
    /// What stands out, and why it may be so; empty where nothing does.
    pub note: String,
}

/// The knobs of the whole exercise: the same for every scenario that they are compared in.
#[derive(Debug, Clone, PartialEq)]
pub struct ExerciseConfig {
    /// The model, as a hub knows it.
    pub model_id: String,
    /// What is generated from.
    pub prompts: Vec<String>,
    /// What the scales of static int8 are found with.
    pub calibration_prompts: Vec<String>,
    /// What perplexity is measured on.
    pub texts: Vec<String>,
    /// Sizes of the batching comparison.
    pub batch_sizes: Vec<usize>,
    /// New tokens of each sequence, in every scenario.
    pub max_new_tokens: usize,
    /// Timed runs of each scenario.
    pub repeats: usize,
    /// An existing folder for CSV and PNG files.
    pub output_dir: PathBuf,
}
