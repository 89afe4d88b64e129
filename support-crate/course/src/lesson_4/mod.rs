//! Checks of lesson 4: post-training quantization.

mod block;
mod configurations;
mod experiment;
mod footprint;
mod front;
mod generations;
mod layer;
mod peers;
mod quality;
mod repetition;
mod report;
mod rounding;
mod scenario;
mod speed;
mod text;
mod texts;
mod trial;

/// What all lessons have.
#[doc(no_inline)]
pub use crate::{Claims, Complaint, MachineCard, Prediction, Score, ask, attempt, attempt_or, claim};
pub use block::{check_dequantize_block, check_quantize_block};
pub use configurations::check_configurations;
pub use experiment::check_run_experiment;
pub use footprint::check_get_model_memory_footprint;
pub use front::check_pareto_front;
pub use layer::{SampleLayer, code_shares, codes_plot, codes_table, sample_layer, typical_absmax};
pub use peers::peers_table;
pub use quality::{
    FormatQuality, block_size_plot, compare_formats, held_out_samples, quality_table, quality_trade_off,
};
pub use repetition::check_repetition;
pub use report::{experiment_table, formats_frame, formats_summary, memory_parts_mib, memory_plot, tensors_table};
pub use rounding::check_rounding_error;
pub use speed::{
    FormatSpeed, decode_plot, decode_table, latency_table, short_name, speed_trade_off, time_formats, told_apart,
};
pub use text::check_generate_text_and_time;
pub use texts::texts_table;

use quantlab::error::Result;
use quantlab::model::LoadOptions;
use quantlab::quant::QuantizationConfig;

const MIB: f64 = 1024.0 * 1024.0;

/// One way to load a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// What tables call it.
    pub name: String,
    /// How the model is loaded.
    pub options: LoadOptions,
}

impl Configuration {
    /// A name and how to load.
    pub fn new(name: impl Into<String>, options: LoadOptions) -> Self {
        Self { name: name.into(), options }
    }

    /// A quantized model on the CPU, the rest of it in float32.
    pub fn quantized(name: impl Into<String>, config: QuantizationConfig) -> Self {
        Self::new(name, LoadOptions { quantization: Some(config), ..LoadOptions::default() })
    }
}

/// What the experiment does with each configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExperimentSettings {
    /// The model, as a hub knows it.
    pub model_id: String,
    /// Prompts, at least one; the first is the one that is timed.
    pub prompts: Vec<String>,
    /// Exactly this many tokens are generated each time.
    pub max_new_tokens: usize,
    /// Generations from the first prompt that count for the latency, at least one.
    pub num_timing_runs: usize,
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
