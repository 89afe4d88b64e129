//! A matrix of weights as a model keeps it: in full precision, or quantized.

use super::InMemory;
use super::parts::Memory;
use super::tensors::{FourBitTensors, Int8Tensors};
use crate::error::{Error, Result};
use crate::model::Precision;
use crate::model::cpu::{self, FourBit, Int8, Weights};
use crate::quant::{Absmax, ActivationScale, Int8Rows, Quantized4Bit};

/// (out, in). Kernels read quantized numbers in main memory; a library's operations take them in its tensors.
#[derive(Debug)]
pub(in crate::model) enum Stored<T> {
    Full(T),
    FourBit(FourBitMatrix),
    Int8(Int8Matrix),
    FourBitTensors(FourBitTensors<T>),
    Int8Tensors(Int8Tensors<T>),
}

#[derive(Debug)]
pub(in crate::model) struct FourBitMatrix {
    quantized: Quantized4Bit,
    /// The scales in float32, if they are quantized themselves.
    unpacked: Vec<f32>,
    compute_dtype: Precision,
}

#[derive(Debug)]
pub(in crate::model) struct Int8Matrix {
    rows: Int8Rows,
    sums: Vec<i32>,
    inputs: Inputs,
}

/// How inputs become 8 bits: as [`cpu::Inputs`].
#[derive(Debug)]
enum Inputs {
    Dynamic { threshold: f32 },
    Static { factors: Vec<f32>, scale: f32 },
}

impl<T> Stored<T> {
    /// Bytes of quantized weights.
    pub fn quantized_bytes(&self) -> usize {
        match self {
            Self::Full(_) => 0,
            Self::FourBit(matrix) => matrix.quantized.packed().len(),
            Self::Int8(matrix) => matrix.rows.values().len(),
            Self::FourBitTensors(matrix) => (matrix.n * matrix.k).div_ceil(2),
            Self::Int8Tensors(matrix) => matrix.n * matrix.k,
        }
    }

    /// Bytes of what else is needed to read them.
    pub fn quant_state_bytes(&self) -> usize {
        match self {
            Self::Full(_) => 0,
            Self::FourBit(matrix) => size_of_val(matrix.absmax()) + matrix.unread_bytes(),
            Self::Int8(matrix) => matrix.quant_state_bytes(),
            Self::FourBitTensors(matrix) => matrix.quant_state_bytes(),
            Self::Int8Tensors(matrix) => matrix.n * size_of::<f32>(),
        }
    }

    /// Bytes of these that no step reads.
    pub fn unread_bytes(&self) -> usize {
        match self {
            Self::FourBit(matrix) => matrix.unread_bytes(),
            _ => 0,
        }
    }

    /// The same in a library's tensors.
    ///
    /// # Errors
    /// No room on the device; static int8.
    pub fn into_tensors(self, memory: &impl Memory<Tensor = T>) -> Result<Self> {
        Ok(match self {
            Self::FourBit(matrix) => Self::FourBitTensors(FourBitTensors::new(memory, &matrix.quantized)?),
            Self::Int8(matrix) => match matrix.inputs {
                Inputs::Dynamic { threshold } => Self::Int8Tensors(Int8Tensors::new(memory, &matrix.rows, threshold)?),
                Inputs::Static { .. } => {
                    return Err(Error::input("static int8 is computed by this library's own kernels only")
                        .hint("take the CPU, and `Backend::Candle` or `Backend::Tch`"));
                }
            },
            other => other,
        })
    }
}

impl<T: InMemory> Stored<T> {
    /// What kernels read.
    pub fn weights(&self) -> Weights<'_> {
        match self {
            Self::Full(tensor) => Weights::Full(tensor.numbers()),
            Self::FourBit(matrix) => Weights::FourBit(matrix.weights()),
            Self::Int8(matrix) => Weights::Int8(matrix.weights()),
            Self::FourBitTensors(_) | Self::Int8Tensors(_) => unreachable!("a fused step has them in main memory"),
        }
    }
}

impl FourBitMatrix {
    /// Scales that are quantized are unpacked, half a bit for each weight, so that no kernel has to. They are kept
    /// as they were too, an eighth of a bit: the codes do not follow from the scales, and a file has the codes.
    pub fn new(quantized: Quantized4Bit, compute_dtype: Precision) -> Self {
        let unpacked = match quantized.absmax() {
            Absmax::Float32(_) => Vec::new(),
            Absmax::Nested(nested) => nested.dequantize(),
        };
        Self { quantized, unpacked, compute_dtype }
    }

    pub fn quantized(&self) -> &Quantized4Bit {
        &self.quantized
    }

    fn absmax(&self) -> &[f32] {
        match self.quantized.absmax() {
            Absmax::Float32(absmax) => absmax,
            Absmax::Nested(_) => &self.unpacked,
        }
    }

    fn unread_bytes(&self) -> usize {
        match self.quantized.absmax() {
            Absmax::Float32(_) => 0,
            nested => nested.size_in_bytes(),
        }
    }

    fn weights(&self) -> FourBit<'_> {
        four_bit_weights(&self.quantized, self.absmax(), self.compute_dtype)
    }
}

/// What kernels read of a matrix whose scales are `absmax` when they are unpacked, to multiply in `compute`.
pub(in crate::model) fn four_bit_weights<'a>(
    quantized: &'a Quantized4Bit,
    absmax: &'a [f32],
    compute: Precision,
) -> FourBit<'a> {
    FourBit {
        packed: quantized.packed(),
        absmax,
        code: quantized.quant_type().codebook(),
        blocksize: quantized.blocksize(),
        compute,
    }
}

impl Int8Matrix {
    pub fn new(rows: Int8Rows, threshold: f32) -> Self {
        Self::with_inputs(rows, Inputs::Dynamic { threshold })
    }

    /// For inputs of these scales; those per channel are in the weights already.
    pub fn with_input_scale(rows: Int8Rows, input_scale: &ActivationScale) -> Self {
        let (factors, scale) = (input_scale.factors(rows.columns()), input_scale.of_products());
        Self::with_inputs(rows, Inputs::Static { factors, scale })
    }

    fn with_inputs(rows: Int8Rows, inputs: Inputs) -> Self {
        let sum = |row: &[i8]| row.iter().map(|&value| i32::from(value)).sum();
        let sums = rows.values().chunks_exact(rows.columns()).map(sum).collect();
        Self { rows, sums, inputs }
    }

    fn quant_state_bytes(&self) -> usize {
        let of_inputs = match &self.inputs {
            Inputs::Dynamic { .. } => 0,
            Inputs::Static { factors, .. } => size_of_val(factors.as_slice()),
        };
        size_of_val(self.rows.scb()) + size_of_val(self.sums.as_slice()) + of_inputs
    }

    pub fn rows(&self) -> &Int8Rows {
        &self.rows
    }

    pub fn weights(&self) -> Int8<'_> {
        let inputs = match &self.inputs {
            Inputs::Dynamic { threshold } => cpu::Inputs::Dynamic { threshold: *threshold },
            Inputs::Static { factors, scale } => cpu::Inputs::Static { factors, scale: *scale },
        };
        Int8 { values: self.rows.values(), absmax: self.rows.scb(), sums: &self.sums, inputs }
    }
}
