//! What a notebook's first cell imports: `use quantlab::prelude::*;`.

pub use crate::course::*;
pub use crate::error::{Error, Result};
pub use crate::generate::{
    FinishReason, GenerateOptions, Generation, PaddingSide, generate, generate_batch, generate_streaming,
    generate_tokens,
};
pub use crate::measure::{
    Bandwidth, Clock, DecodeLimit, MemoryFootprint, Metrics, Perplexity, PerplexityOptions, Prompt, RunInfo, Runs,
    Statistics, Timing, TimingOptions, WallClock, get_model_memory_footprint, measure_memory_bandwidth,
    memory_bandwidth, peak_memory, peak_memory_of, perplexity, prompt_of_tokens, repeat, reset_peak_memory,
    resident_memory, time_generate, time_generate_batch, time_generate_interleaved,
};
pub use crate::model::{
    CausalLm, Device, Engine, Hub, Linear4bit, Linear8bitLt, LoadOptions, Loaded, LogitPositions, Logits, ModelHub,
    Precision, ResolvedDtype, TensorInfo, TensorKind, TokenBatch, Tokenizer, Weights, best_device, calibrate,
    load_model, load_model_and_tokenizer, resolve_dtype, set_threads, threads,
};
pub use crate::quant::{
    Absmax, Calibration, CalibrationMethod, FourBit, FourBitOptions, Granularity, Head, Int8Rows, QuantizationConfig,
    Quantized4Bit,
};
pub use crate::report::{BarPlot, Estimate, LinePlot, StackedBar, Summary, Table, Timeline};
pub use crate::source::{Fact, ModelId, embedded_facts, held_out_text};
