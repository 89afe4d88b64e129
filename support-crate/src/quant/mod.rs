//! Quantizes weights to 4 or 8 bits each.
//!
//! | format | bits a weight | scale | inputs |
//! | --- | --- | --- | --- |
//! | [`Quantized4Bit`]: NF4, FP4 | 4 | one for each block | as they are: weights are dequantized to compute |
//! | [`AffineInt4`] | 4 | one for each group, with a zero point | as they are, or int8 (W4A8): one scale for each 32 |
//! | [`Int8Rows`] with [`Int8Tokens`]: LLM.int8() and dynamic int8 | 8 | one for each row | int8, one scale for each token, found while computing |
//! | [`Int8Rows`] with an [`ActivationScale`] of a [`Calibrator`]: static int8 | 8 | one for each row | int8, scales fixed beforehand |
//!
//! A [`QuantizationConfig`] says which layers of a model are quantized, and how; [`FORMATS`] is the table of all
//! formats, [`CHECKPOINTS`] that of the checkpoints of others that are read, and a [`Rounding`] how the codes of affine
//! int4 are chosen.
//!
//! Everything else here is a function of slices: no model, no threads. Blocks and rows do not depend on each
//! other, so a caller with several threads gives each of them some
//! ([`quantize_4bit_blocks`], [`quantize_rows_int8`]). Only GPTQ's large products ([`Hessian`], and its factor) share
//! their work among threads themselves.

mod affine_int4;
mod blockwise;
mod calibration;
mod cascade_sum;
mod checkpoint;
mod codebook;
mod config;
mod float;
mod format;
mod ggml;
mod histogram;
mod int8;
mod llm_int8;
mod nested;
mod quantized_4bit;
mod rounding;
mod small_float;
mod static_int8;

pub use affine_int4::{AffineInt4, quantize_affine_groups};
pub use blockwise::{check_blocksize, dequantize_4bit_blocks, quantize_4bit_blocks};
pub use calibration::{Calibration, CalibrationMethod, Calibrator, Granularity, LayerCalibration};
pub use checkpoint::{CHECKPOINTS, Checkpoint, CheckpointFormat};
pub(crate) use checkpoint::{PackedLayer, Part, Parts};
pub use codebook::{E2M1, FourBit, INT4, dynamic_map, round_to_codebook};
pub use config::{Head, QuantizationConfig, QuantizationMethod};
pub use float::Float;
pub use format::{FORMATS, Format};
pub(crate) use ggml::TensorPlace;
pub(crate) use ggml::{GgmlLayout, codes as ggml_codes, factors as ggml_factors, steps as ggml_steps};
pub use ggml::{GgufType, encode_ggml, restore_ggml};
pub use int8::{Int8Rows, int8_matmul_reference, quantize_rows_int8};
pub(crate) use llm_int8::check_threshold;
pub use llm_int8::{Int8Tokens, llm_int8_linear_reference};
pub use nested::{Absmax, NESTED_BLOCKSIZE, NestedAbsmax};
pub use quantized_4bit::{FourBitOptions, Quantized4Bit};
pub(crate) use rounding::{Factor, hessian_bytes, last_code, quantize_gptq_rows};
pub use rounding::{Fit, GptqOptions, Hessian, HessianCollector, Hessians, Rounding};
pub use small_float::{e2m1, e4m3, e8m0};
pub use static_int8::ActivationScale;
