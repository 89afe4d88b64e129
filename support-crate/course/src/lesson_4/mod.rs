//! Checks of lesson 4: post-training quantization.

mod block;
mod budget;
mod configurations;
mod experiment;
mod findings;
mod footprint;
mod front;
mod generations;
mod layer;
mod more;
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
pub use crate::{Claims, Complaint, MachineCard, Prediction, SavedAs, Score, ask, attempt, attempt_or, claim};
pub use block::{check_dequantize_block, check_quantize_block};
pub use budget::check_fastest_within;
pub use configurations::check_configurations;
pub use experiment::check_run_experiment;
pub use findings::{
    codebook_claims, codes_claims, error_claims, formats_quality_claims, memory_claims, qat_claims, speed_claims,
    stored_bytes_claim, text_claims,
};
pub use footprint::check_get_model_memory_footprint;
pub use front::check_pareto_front;
pub use layer::{
    Blocks, QuantizeBlock, SampleLayer, code_shares, codes_plot, codes_table, errors_plot, sample_layer, typical_absmax,
};
pub use more::check_more_formats;
pub use peers::peers_table;
pub use quality::{
    FormatQuality, block_size_plot, compare_formats, divergence_of, held_out_samples, qat_quality, quality_table,
    quality_trade_off,
};
pub use repetition::check_repetition;
pub use report::{
    experiment_table, footprint_table, footprints, formats_frame, formats_summary, memory_parts_mib, memory_plot,
    nf4_percent, print_texts, tensors_table,
};
pub use rounding::check_rounding_error;
pub use speed::{
    FormatSpeed, decode_plot, decode_rate_of, decode_table, fronts, latency_table, load_all, short_name,
    speed_trade_off, speed_up_of, time_formats,
};
pub use text::check_generate_text_and_time;
pub use texts::texts_table;

use quantlab::error::Result;
use quantlab::model::{Device, Engine, LoadOptions, best_device};
use quantlab::quant::{FourBitOptions, QuantizationConfig, Rounding};

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

    /// Three configurations at the end of what can be had: 3 and 2 bits for each weight, evenly spaced with a scale and a zero
    /// point for 64 weights of a row, which the kernels keep in 4 bits; and one in blocks that no format has, which cannot be
    /// loaded.
    pub fn extremes() -> [Self; 3] {
        let affine = |bits| {
            let config = QuantizationConfig::affine(bits, 64, Rounding::Nearest);
            Self::quantized(format!("INT{bits}, groups of 64"), config)
        };
        let odd = FourBitOptions { blocksize: 100, ..FourBitOptions::default() };
        [affine(3), affine(2), Self::quantized("NF4, blocks of 100", QuantizationConfig::four_bit(odd))]
    }

    /// The learner's baseline on a GPU, where there is one.
    pub fn on_gpu(configurations: fn(Device) -> Vec<Self>) -> Vec<Self> {
        match best_device() {
            Device::Cpu => Vec::new(),
            gpu => attempt(|| Ok(configurations(gpu).into_iter().take(1).collect())),
        }
    }

    /// The first three of some configurations, computed by libtorch.
    pub fn by_libtorch(all: &[Self]) -> Vec<Self> {
        let by_libtorch = |one: &Self| {
            let options = LoadOptions { engine: Some(Engine::Tch), ..one.options.clone() };
            Self::new(format!("{}, by libtorch", one.name), options)
        };
        all.iter().take(3).map(by_libtorch).collect()
    }

    /// Those that have one of these names.
    pub fn named(all: &[Self], names: &[&str]) -> Vec<Self> {
        all.iter().filter(|one| names.contains(&one.name.as_str())).cloned().collect()
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
