//! A model's work to numbers: time, throughput, perplexity, each with what it was measured on.

mod perplexity;
mod prompt;
mod run_info;
mod statistics;
mod timing;

pub use crate::model::threads;
pub use perplexity::{Perplexity, PerplexityOptions, perplexity, perplexity_of_tokens};
pub use prompt::{Prompt, prompt_of_tokens};
pub use run_info::{BUILD, RunInfo};
pub use statistics::Statistics;
pub use timing::{Repeat, Timing, TimingOptions, time_generate, time_generate_interleaved};
