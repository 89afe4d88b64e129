//! Where an engine keeps a decoder's weights, and in what form.

use std::borrow::Cow;

use super::quantize::Int8Activations;
use crate::error::Result;
use crate::model::Precision;
use crate::model::weights::UnreadTensor;
use crate::quant::{Int8Rows, Quantized4Bit};

/// An engine's memory on a device: for kernels main memory, for a tensor library its tensors.
pub(in crate::model) trait Store: Send + Sync {
    /// A matrix in the precision of the model.
    type Tensor: Send + Sync;
    /// A bias, or the numbers of a norm, in what is computed in.
    type Vector: Send + Sync;
    type FourBit: Send + Sync;
    type Int8: Send + Sync;

    /// Reads a matrix in `dtype`, the precision of the model.
    ///
    /// # Errors
    /// As [`UnreadTensor::read`]; no room for it.
    fn matrix(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<Self::Tensor>;

    /// Reads a vector in `dtype`, which is computed in.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    fn vector(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<Self::Vector>;

    /// Takes a matrix of 4-bit numbers, to be multiplied in `compute_dtype` where the engine can choose.
    ///
    /// # Errors
    /// No room for it.
    fn four_bit(&self, quantized: Quantized4Bit, compute_dtype: Precision) -> Result<(Self::FourBit, QuantStateBytes)>;

    /// Takes a matrix of 8-bit numbers.
    ///
    /// # Errors
    /// No room for it; static int8 where the engine has none.
    fn int8(&self, rows: Int8Rows, activations: Int8Activations) -> Result<(Self::Int8, QuantStateBytes)>;

    /// How many bytes of a matrix are read from a mapped file.
    fn mapped_bytes(_matrix: &Self::Tensor) -> usize {
        0
    }

    /// The numbers of a matrix, row by row.
    ///
    /// # Errors
    /// What the engine reports.
    fn matrix_values<'a>(&self, matrix: &'a Self::Tensor) -> Result<Cow<'a, [f32]>>;

    /// # Errors
    /// What the engine reports.
    fn vector_values<'a>(&self, vector: &'a Self::Vector) -> Result<Cow<'a, [f32]>>;

    /// What [`four_bit`](Self::four_bit) took.
    ///
    /// # Errors
    /// What the engine reports.
    fn quantized_4bit<'a>(&self, matrix: &'a Self::FourBit) -> Result<Cow<'a, Quantized4Bit>>;

    /// What [`int8`](Self::int8) took.
    ///
    /// # Errors
    /// What the engine reports.
    fn int8_rows<'a>(&self, matrix: &'a Self::Int8) -> Result<Cow<'a, Int8Rows>>;
}

/// Memory of a quantized matrix besides its codes.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::model) struct QuantStateBytes {
    /// Scales, sums of rows, and the like.
    pub all: usize,
    /// Those of them that no step reads.
    pub unread: usize,
}
