//! Quantized layers: made from full precision while they are read, or read as a checkpoint has them.
//!
//! A file for each way to hold a matrix: what makes it, what reads it, what kernels multiply, what is saved.

mod four_bit;
mod grouped;
mod int4;
mod int8;
mod parts;
mod q8_0;

use std::fmt;

use quantlab_kernels::{Packed4Bit, Weights as KernelWeights};

use super::weights::{BlockRows, StateTensor, UnreadTensor};
use super::{Precision, Weights};
use crate::error::{Error, Result};
use crate::quant::{Int8Rows, QuantizationMethod};
use crate::source::GgmlType;
use four_bit::FourBitMatrix;
use grouped::GroupedMatrix;
pub(super) use int4::Int4Matrix;
pub(super) use int8::Int8Matrix;
use parts::FullPrecision;
use q8_0::Q8_0Matrix;

/// A matrix of quantized weights (n, k) in main memory. Kernels multiply it as it is.
pub(super) trait QuantizedWeight: KernelWeights + fmt::Debug + Send {
    /// (n, k)
    fn shape(&self) -> [usize; 2];

    /// Bytes of codes.
    fn code_bytes(&self) -> usize;

    /// Bytes besides the codes.
    fn state_bytes(&self) -> StateBytes;

    /// How many of these bytes, and of the others, are read from a mapped file.
    fn mapped_bytes(&self) -> usize {
        0
    }

    /// What a tensor library makes tensors of; none where its operations cannot compute the format.
    fn operands(&self) -> Option<Operands<'_>>;

    /// Gives the memory of the codes back, once a tensor library has them.
    fn forget_codes(&mut self);

    /// The codes as a checkpoint has them, from those that [`operands`](Self::operands) had.
    fn saved_codes(&self, codes: Vec<u8>) -> Vec<u8> {
        codes
    }

    /// The layer's tensors as a checkpoint has them, the codes first.
    ///
    /// # Errors
    /// A format that no checkpoint has.
    fn state_dict<'a>(&'a self, module: &str) -> Result<Vec<StateTensor<'a>>>;
}

/// Numbers that a matrix is computed from.
pub(super) enum Operands<'a> {
    /// 4-bit numbers by a table.
    FourBit(Packed4Bit<'a>),
    /// Rows of 8-bit numbers; columns of inputs that reach the threshold are multiplied as they are.
    Int8(&'a Int8Rows, f32),
}

/// Memory of a quantized matrix besides its codes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StateBytes {
    /// Scales, sums of rows, and the like.
    pub all: usize,
    /// Those of them that no step reads.
    pub unread: usize,
}

/// A layer's weight that is to be read, and what it is to become.
pub(super) struct Source<'a> {
    /// In the files it may lie transposed, as (k, n); one that was saved quantized never does.
    pub tensor: UnreadTensor<'a>,
    pub method: &'a QuantizationMethod,
    /// What 4-bit weights are multiplied in.
    pub compute_dtype: Precision,
    /// The precision of the model, which weights are rounded to before they are quantized, as transformers does.
    pub dtype: Precision,
}

impl<'a> Source<'a> {
    /// (n, k)
    fn shape(&self) -> (usize, usize) {
        (self.tensor.shape[0], self.tensor.shape[1])
    }

    /// Reads the layer of a checkpoint that is quantized.
    ///
    /// # Errors
    /// Tensors that are missing or contradict each other or the config.
    pub fn read(&self) -> Result<Box<dyn QuantizedWeight>> {
        let UnreadTensor { weights, name, .. } = self.tensor;
        let found: Result<Box<dyn QuantizedWeight>> = match self.method {
            QuantizationMethod::FourBit(_) => {
                FourBitMatrix::read(weights, name, self.shape(), self.compute_dtype).map(boxed)
            }
            QuantizationMethod::LlmInt8 { threshold } => {
                Int8Matrix::read(weights, name, self.shape(), *threshold).map(boxed)
            }
            QuantizationMethod::StaticInt8(_) | QuantizationMethod::Int4 { .. } => Err(no_checkpoint()),
        };
        found.map_err(Error::in_file)
    }

    /// Quantizes the weight of `module`. `numbers` is memory for weights in float32, shared by all layers: if each
    /// layer gave back its own, the system's allocator would keep several.
    ///
    /// # Errors
    /// As [`UnreadTensor::read`]; weights that are not finite; sizes that the format does not have.
    pub fn quantize(&self, module: &str, numbers: &mut Vec<f32>) -> Result<Box<dyn QuantizedWeight>> {
        self.tensor.check()?;
        let (dtype, compute_dtype) = (self.dtype, self.compute_dtype);
        let full = FullPrecision { tensor: self.tensor, dtype, numbers };
        match self.method {
            QuantizationMethod::FourBit(options) => FourBitMatrix::quantize(full, *options, compute_dtype).map(boxed),
            QuantizationMethod::LlmInt8 { threshold } => Int8Matrix::quantize(full, *threshold).map(boxed),
            QuantizationMethod::StaticInt8(calibration) => {
                Int8Matrix::quantize_static(full, calibration.layer(module)?).map(boxed)
            }
            QuantizationMethod::Int4 { group_size, int8_inputs, bits, rounding } => {
                let quantized = int4::quantize(full, module, *group_size, *bits, rounding)?;
                if *int8_inputs {
                    return GroupedMatrix::of_int4(&quantized).map(boxed);
                }
                Ok(boxed(Int4Matrix::new(quantized, compute_dtype)))
            }
        }
    }
}

/// The blocks of a GGUF file: rearranged for the kernels, or where the file has them, if they are multiplied so.
///
/// # Errors
/// No memory for them; a scale that is NaN or infinite, if that is not allowed; numbers that stand for themselves.
pub(super) fn of_blocks(rows: BlockRows, check_finite: bool) -> Result<Box<dyn QuantizedWeight>> {
    if rows.kind() == GgmlType::Q8_0 {
        return Q8_0Matrix::new(rows, check_finite).map(boxed);
    }
    GroupedMatrix::of_blocks(&rows, check_finite).map(boxed)
}

fn boxed<'a, T: QuantizedWeight + 'a>(matrix: T) -> Box<dyn QuantizedWeight + 'a> {
    Box::new(matrix)
}

fn no_checkpoint() -> Error {
    Error::input("no checkpoint can hold this format; it is made while a model is loaded")
}

fn not_of_blocks() -> Error {
    Error::input("a checkpoint of transformers has no blocks of GGUF")
        .hint("load the model with `dequantize: true` to save what its weights stand for")
}

/// Numbers of a checkpoint, one after the other.
fn floats(weights: &Weights, name: &str, len: usize) -> Result<Vec<f32>> {
    let tensor = UnreadTensor { weights, name, shape: &[len], transposed: false };
    tensor.read().map(crate::buffer::Buffer::into_vec)
}

fn float32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
