//! Checks of lesson 2: quantized inference.

mod ablation;
mod batching;
mod controller;
mod expected;
mod findings;
mod int8;
mod measuring;
mod ppl;
mod probes;
mod probing;
mod ptq;
mod report;
mod self_checks;
mod table;
mod timing;

use std::path::PathBuf;

use serde::Serialize;

pub use crate::formats::FormatRow;
/// What all lessons have.
#[doc(no_inline)]
pub use crate::{Claims, Complaint, MachineCard, Prediction, Score, ask, attempt, attempt_or, claim};
pub use ablation::check_ablate_cache_and_padding;
pub use batching::check_summarise_batches;
pub use controller::{QuantizationReport, batch_sizes, gpu_baseline, run_quantization_exercise, static_int8};
pub use findings::{ScalesRow, batch_gain, cache_gain, compare_scales, int8_gain, quantization_summary, scales_table};
pub use int8::{Int8Vector, check_int8_dot, check_quantize_affine, check_quantize_symmetric};
pub use measuring::check_measure_batched;
pub use ppl::check_compare_ppl;
pub use probes::check_probe_edge_prompts;
pub use probing::edge_prompts;
pub use ptq::check_run_static_ptq;
/// Several values of one cell.
#[doc(no_inline)]
pub use quantlab::report::show_together;
pub use report::{
    formats_plot, int8_table, outliers_table, scenarios, show_ablation, show_batching, show_edge, show_formats,
};
pub use table::check_build_results_table;
pub use timing::{in_turn, time_batch};

use quantlab::generate::PaddingSide;
use quantlab::measure::{Runs, Statistics};
use quantlab::model::Device;

/// With the cache or without, and the side of the padding: all settings of the ablation.
const SETTINGS: [(bool, PaddingSide); 4] =
    [(true, PaddingSide::Left), (true, PaddingSide::Right), (false, PaddingSide::Left), (false, PaddingSide::Right)];

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

/// One batch size: what it took to answer all prompts, this many at a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchRun {
    /// Prompts in a batch; the last batch has fewer if they do not divide evenly.
    pub batch_size: usize,
    /// Runs over all prompts; each counts the new tokens of all of them.
    pub runs: Runs,
    /// Of one batch, in seconds: how long each of its prompts waits for its answer, from the start of the batch.
    pub batch_latency_s: Statistics,
    /// A run's time shared among all prompts, in seconds: what a prompt costs the machine.
    pub time_per_sample_s: Statistics,
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

/// An unusual prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EdgePrompt {
    /// The kind of prompt: `very short`, `very long`, `multi-line`, `repetitive`.
    pub name: String,
    /// The prompt.
    pub text: String,
}

/// An unusual prompt, and how generating from it went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EdgeRun {
    /// The kind of prompt.
    pub name: String,
    /// The prompt's length, in tokens.
    pub prompt_tokens: usize,
    /// The timed runs.
    pub runs: Runs,
    /// The text that followed.
    pub text: String,
}

/// The settings of the whole exercise: the same for every scenario that they are compared in.
#[derive(Debug, Clone, PartialEq)]
pub struct ExerciseConfig {
    /// The model, as a hub knows it.
    pub model_id: String,
    /// Where baseline and quantized model run.
    pub device: Device,
    /// What is generated from.
    pub prompts: Vec<&'static str>,
    /// Lengths at which both models are compared, in tokens.
    pub prompt_lengths: Vec<usize>,
    /// What the scales of static int8 are found with.
    pub calibration_prompts: Vec<&'static str>,
    /// What perplexity is measured on.
    pub texts: Vec<&'static str>,
    /// Sizes of the batching comparison.
    pub batch_sizes: Vec<usize>,
    /// New tokens of each sequence, in every scenario.
    pub max_new_tokens: usize,
    /// Timed runs of each scenario.
    pub repeats: usize,
    /// A folder for CSV and PNG files; it is made if need be.
    pub output_dir: PathBuf,
}
