//! Checks of lesson 4: post-training quantization.

mod block;
mod configurations;
mod experiment;
mod footprint;
mod text;

pub use block::{check_dequantize_block, check_quantize_block};
pub use configurations::check_configurations;
pub use experiment::check_run_experiment;
pub use footprint::check_get_model_memory_footprint;
pub use text::check_generate_text_and_time;

use crate::error::Result;
use crate::model::LoadOptions;

/// One way to load a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// What tables call it.
    pub name: String,
    /// How the model is loaded.
    pub options: LoadOptions,
}

/// One row of the experiment.
#[derive(Debug)]
pub struct ExperimentRow {
    /// The name of the configuration.
    pub name: String,
    /// What was measured, or why nothing could be.
    pub outcome: Result<ExperimentResult>,
}

/// What one configuration gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentResult {
    /// Parameters and buffers, in MiB.
    pub memory_mib: f64,
    /// Mean latency of the first prompt's timed runs, in seconds.
    pub avg_latency_s: f64,
    /// The new text after each prompt.
    pub outputs: Vec<String>,
}
