//! What a notebook's first cell imports: `use quantlab::prelude::*;`.

pub use crate::error::{Error, Result};
pub use crate::generate::{
    FinishReason, GenerateOptions, Generation, PaddingSide, generate, generate_batch, generate_streaming,
};
pub use crate::measure::{
    Bandwidth, DecodeLimit, MemoryFootprint, Perplexity, PerplexityOptions, Prompt, Statistics, Timing, TimingOptions,
    get_model_memory_footprint, measure_memory_bandwidth, memory_bandwidth, peak_memory, peak_memory_of, perplexity,
    prompt_of_tokens, reset_peak_memory, resident_memory, time_generate, time_generate_batch,
    time_generate_interleaved,
};
pub use crate::model::{
    Backend, CausalLm, Device, Linear4bit, Linear8bitLt, LoadOptions, Loaded, Precision, ResolvedDtype, best_device,
    load_model, load_model_and_tokenizer, resolve_dtype, set_threads, threads,
};
pub use crate::quant::{FourBit, FourBitOptions, Head, QuantizationConfig};
pub use crate::report::{BarPlot, Estimate, LinePlot, StackedBar, Summary, Table, Timeline};
pub use crate::source::{Fact, embedded_facts, held_out_text};
