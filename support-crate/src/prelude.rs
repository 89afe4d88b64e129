//! What a notebook's first cell imports: `use quantlab::prelude::*;`.

pub use crate::error::{Error, Result};
pub use crate::generate::{
    FinishReason, GenerateOptions, GeneratedTokens, Generation, PaddingSide, generate, generate_batch,
    generate_streaming, generate_tokens,
};
pub use crate::measure::{
    Bandwidth, Clock, DecodeLimit, GreedyDifference, MemoryFootprint, Metrics, Percentiles, Perplexity,
    PerplexityOptions, Prompt, QualityComparison, RunInfo, Runs, Statistics, Timing, TimingOptions, Uncertain,
    WallClock, compare_quality, compare_quality_of_tokens, get_model_memory_footprint, greedy_differences,
    measure_memory_bandwidth, memory_bandwidth, peak_memory, peak_memory_of, perplexity, prompt_of_tokens, repeat,
    reset_peak_memory, resident_memory, stopwatch, time_generate, time_generate_batch, time_generate_interleaved,
};
pub use crate::model::{
    CausalLm, Device, Engine, Hub, LoadOptions, Loaded, LogitPositions, Logits, ModelHub, Precision, ResolvedDtype,
    TensorInfo, TensorKind, TokenBatch, Tokenizer, Weights, best_device, calibrate, load_model,
    load_model_and_tokenizer, resolve_dtype, set_threads, threads,
};
pub use crate::quant::{
    Absmax, AffineInt4, Calibration, CalibrationMethod, E2M1, FourBit, FourBitOptions, Granularity, Head, INT4,
    Int8Rows, QuantizationConfig, QuantizationMethod, Quantized4Bit, round_to_codebook,
};
pub use crate::report::{BarPlot, Estimate, LinePlot, RugPlot, StackedBar, Summary, Table, Timeline, TradeOff};
pub use crate::source::{Fact, ModelId, embedded_facts, held_out_text};
