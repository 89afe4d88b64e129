//! What a notebook's first cell imports: `use quantlab::prelude::*;`.

pub use crate::error::{Error, Result};
pub use crate::generate::{
    Chat, Draft, GenerateOptions, Message, PaddingSide, generate, generate_batch, generate_tokens,
};
pub use crate::measure::{
    Clock, Item, ItemComparison, ItemScores, MemoryReader, Metrics, Perplexity, PerplexityOptions, Prompt, Prompts,
    QualityComparison, RunInfo, Runs, Statistics, Timing, TimingOptions, TokenIds, WallClock, compare_quality, items,
    noise_floor, perplexity, prompt_of_tokens, repeat, score_items, stopwatch, time_in_turn,
};
pub use crate::model::{
    Device, Engine, Fold, Hub, ImportanceMatrix, LoadOptions, Loaded, LogitPositions, Logits, ModelHub, Operation,
    Precision, ResolvedDtype, TensorInfo, TensorKind, TokenBatch, Tokenizer, Traced, WeightMatrix, Weights,
    best_device, calibrate, hessians, load_model, load_model_and_tokenizer, resolve_dtype, threads, trace,
};
pub use crate::quant::{
    Calibration, CalibrationMethod, E2M1, FourBit, FourBitOptions, GgufType, Granularity, Head, Hessians, INT4,
    Int8Rows, QuantizationConfig, QuantizationMethod, Quantized4Bit, Rounding, round_to_codebook,
};
pub use crate::report::{
    BarPlot, Estimate, HeatMap, LinePlot, RugPlot, ServingTimeline, StackedBar, Summary, Table, Timeline, TradeOff,
};
pub use crate::source::held_out_text;
