//! Weights to smaller ones: 4 bits or 8 bits each, in the formats of bitsandbytes, and static int8.
//!
//! | format | bits a weight | scale | inputs |
//! | --- | --- | --- | --- |
//! | [`Quantized4Bit`]: NF4, FP4 | 4 | one for each block | as they are: weights are dequantized to compute |
//! | [`Int8Rows`] with [`Int8Tokens`]: LLM.int8() and dynamic int8 | 8 | one for each row | int8, one scale for each token, found while computing |
//! | [`StaticInt8`] with a [`Calibrator`] | 8 | one for each row | int8, scales fixed beforehand |
//!
//! A [`QuantizationConfig`] says which layers of a model are quantized, and how.
//!
//! Everything else here is a function of slices: no model, no threads. Blocks and rows do not depend on each
//! other, so a caller with several threads gives each of them some
//! ([`quantize_4bit_blocks`], [`quantize_rows_int8`]).

mod blockwise;
mod calibration;
mod cascade_sum;
mod codebook;
mod config;
mod float;
mod histogram;
mod int8;
mod llm_int8;
mod nested;
mod quantized_4bit;
mod static_int8;

pub use blockwise::{check_blocksize, dequantize_4bit_blocks, quantize_4bit_blocks};
pub use calibration::{Calibration, CalibrationMethod, Calibrator, Granularity, LayerCalibration};
pub use codebook::{E2M1, FourBit, INT4, dynamic_map, round_to_codebook};
pub use config::{Head, LayerFormat, QuantizationConfig};
pub use float::Float;
pub use int8::{Int8Rows, int8_matmul_reference, quantize_rows_int8};
pub(crate) use llm_int8::check_threshold;
pub use llm_int8::{Int8Tokens, llm_int8_linear_reference};
pub use nested::{Absmax, NESTED_BLOCKSIZE, NestedAbsmax};
pub use quantized_4bit::{FourBitOptions, Quantized4Bit};
pub use static_int8::{ActivationScale, StaticInt8};
