//! A matrix of weights as a model keeps it: in full precision, or quantized.

use super::InMemory;
use super::parts::Memory;
use super::tensors::{FourBitTensors, Int8Tensors};
use crate::error::Result;
use crate::model::cpu::{FourBit, Int8, Weights};
use crate::quant::{Absmax, Int8Rows, Quantized4Bit};

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
}

#[derive(Debug)]
pub(in crate::model) struct Int8Matrix {
    rows: Int8Rows,
    sums: Vec<i32>,
    threshold: f32,
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
            Self::FourBit(matrix) => size_of_val(matrix.absmax()),
            Self::Int8(matrix) => size_of_val(matrix.rows.scb()) + size_of_val(matrix.sums.as_slice()),
            Self::FourBitTensors(matrix) => matrix.quant_state_bytes(),
            Self::Int8Tensors(matrix) => matrix.n * size_of::<f32>(),
        }
    }

    /// The same in a library's tensors.
    ///
    /// # Errors
    /// No room on the device.
    pub fn into_tensors(self, memory: &impl Memory<Tensor = T>) -> Result<Self> {
        Ok(match self {
            Self::FourBit(matrix) => Self::FourBitTensors(FourBitTensors::new(memory, &matrix.quantized)?),
            Self::Int8(matrix) => Self::Int8Tensors(Int8Tensors::new(memory, &matrix.rows, matrix.threshold)?),
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
    /// Scales that are quantized are unpacked, half a bit for each weight, so that no kernel has to.
    pub fn new(quantized: Quantized4Bit) -> Self {
        Self { quantized: quantized.with_plain_absmax() }
    }

    fn absmax(&self) -> &[f32] {
        match self.quantized.absmax() {
            Absmax::Float32(absmax) => absmax,
            Absmax::Nested(_) => unreachable!("unpacked when this was made"),
        }
    }

    fn weights(&self) -> FourBit<'_> {
        four_bit_weights(&self.quantized, self.absmax())
    }
}

/// What kernels read of a matrix whose scales are `absmax` when they are unpacked.
pub(in crate::model) fn four_bit_weights<'a>(quantized: &'a Quantized4Bit, absmax: &'a [f32]) -> FourBit<'a> {
    FourBit {
        packed: quantized.packed(),
        absmax,
        code: quantized.quant_type().codebook(),
        blocksize: quantized.blocksize(),
    }
}

impl Int8Matrix {
    pub fn new(rows: Int8Rows, threshold: f32) -> Self {
        let sum = |row: &[i8]| row.iter().map(|&value| i32::from(value)).sum();
        let sums = rows.values().chunks_exact(rows.columns()).map(sum).collect();
        Self { rows, sums, threshold }
    }

    pub fn rows(&self) -> &Int8Rows {
        &self.rows
    }

    pub fn weights(&self) -> Int8<'_> {
        Int8 { values: self.rows.values(), absmax: self.rows.scb(), sums: &self.sums, threshold: self.threshold }
    }
}
