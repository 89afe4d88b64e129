//! Measures a model's work: time, throughput, memory, quality, each with what it was measured on.

mod arithmetic;
mod bandwidth;
mod clock;
mod decode_limit;
mod footprint;
mod items;
mod memory;
mod metrics;
mod nll;
mod perplexity;
mod prompt;
mod prompts;
mod quality;
mod run_info;
mod scoring;
mod statistics;
mod timing;
mod uncertain;
mod windows;

pub use crate::model::{available_memory, threads};
pub use arithmetic::{Factors, peak_gops};
pub use bandwidth::MemoryReader;
pub use clock::{Clock, WallClock, stopwatch};
pub use decode_limit::DecodeLimit;
pub(crate) use footprint::MIB;
pub use footprint::MemoryFootprint;
pub(crate) use items::right;
pub use items::{Item, ItemComparison, ItemScore, ItemScores, items, score_items};
pub use memory::{peak_memory, peak_memory_of, reset_peak_memory, resident_memory};
pub use metrics::{Metrics, Runs, repeat};
pub use perplexity::{Perplexity, perplexity, perplexity_of_tokens};
pub use prompt::{Prompt, prompt_of_tokens};
pub use prompts::{Prompts, TokenIds};
pub use quality::{
    CacheComparison, GreedyDifference, Percentiles, QualityBase, QualityComparison, compare_caches, compare_quality,
    compare_quality_of_tokens, greedy_differences, noise_floor,
};
pub use run_info::{BUILD, RunInfo};
pub use scoring::PerplexityOptions;
pub use statistics::Statistics;
pub use timing::{Timing, TimingOptions, time_in_turn};
pub use uncertain::Uncertain;
