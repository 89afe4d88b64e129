//! Measure LLM inference and quantize models, cell by cell, from Rust notebooks.
//!
//! Data flows one way through the modules:
//!
//! | module | from | to |
//! | --- | --- | --- |
//! | [`source`] | a model id | its files: Hub, folder, GGUF, package registry, embedded, random |
//! | [`quant`] | numbers | fewer bits: NF4, FP4, int4, int8, GGUF's blocks; calibration, GPTQ and HQQ |
//! | [`model`] | files | a [`CausalLm`](model::CausalLm) with its tokenizer |
//! | [`generate`] | a model and a prompt | tokens |
//! | [`measure`] | a model and a prompt or text | time, throughput, memory, quality |
//! | [`serve`] | a model and requests that arrive | tokens, and when each came |
//! | [`report`] | numbers | tables and plots in the notebook |
//!
//! A notebook's first cell says `use quantlab::prelude::*;`. What a lesson needs beyond that, checks above all, is the crate
//! `quantlab-course`.

mod buffer;
pub mod error;
pub mod generate;
pub mod interrupt;
pub mod measure;
pub mod model;
mod output;
mod precision;
pub mod prelude;
mod progress;
pub mod quant;
pub mod report;
pub mod serve;
pub mod source;

pub use progress::progress_on_stderr;

// A cell links this one shared library and takes what it needs of these crates from here; a `:dep` on one of them would
// bring in a second copy with statics of its own.
pub use {candle_core, candle_nn, hf_hub, plotters, polars, tch, tokenizers};

/// This crate's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
