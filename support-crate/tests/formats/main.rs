//! Quantized weights and caches: the numbers of the packages that define a format, and what a format keeps of a model.

#[path = "../common/mod.rs"]
mod common;
mod folding;
mod int4_rounding;
mod quant_golden;
mod quantized;
mod quantized_caches;
mod static_int8;
