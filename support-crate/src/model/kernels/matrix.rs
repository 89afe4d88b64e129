//! Quantized matrices as kernels read them.

use crate::model::Precision;
use crate::model::cpu::{self, FourBit, Int8, Weights};
use crate::model::decoder::{Int8Activations, Matrix, QuantStateBytes};
use crate::quant::{Absmax, Int8Rows, Quantized4Bit};

use super::Kernels;

impl Matrix<Kernels> {
    /// What kernels read.
    pub fn weights(&self) -> Weights<'_> {
        match self {
            Self::Full(array) => Weights::Full(array.numbers()),
            Self::FourBit(matrix) => Weights::FourBit(matrix.weights(matrix.compute_dtype)),
            Self::Int8(matrix) => Weights::Int8(matrix.weights()),
        }
    }
}

/// A matrix of 4-bit numbers.
#[derive(Debug)]
pub struct FourBitMatrix {
    quantized: Quantized4Bit,
    /// The scales in float32, if they are quantized themselves.
    unpacked: Vec<f32>,
    compute_dtype: Precision,
}

/// A matrix of 8-bit numbers.
#[derive(Debug)]
pub struct Int8Matrix {
    rows: Int8Rows,
    /// The sum of each row.
    sums: Vec<i32>,
    activations: Int8Activations,
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

    /// The scale of each block.
    pub fn absmax(&self) -> &[f32] {
        match self.quantized.absmax() {
            Absmax::Float32(absmax) => absmax,
            Absmax::Nested(_) => &self.unpacked,
        }
    }

    pub fn quant_state_bytes(&self) -> QuantStateBytes {
        let unread = match self.quantized.absmax() {
            Absmax::Float32(_) => 0,
            nested => nested.size_in_bytes(),
        };
        QuantStateBytes { all: size_of_val(self.absmax()) + unread, unread }
    }

    /// What kernels read, to multiply in `compute_dtype`.
    pub fn weights(&self, compute_dtype: Precision) -> FourBit<'_> {
        FourBit {
            packed: self.quantized.packed(),
            absmax: self.absmax(),
            code: self.quantized.quant_type().codebook(),
            blocksize: self.quantized.blocksize(),
            compute: compute_dtype,
        }
    }
}

impl Int8Matrix {
    pub fn new(rows: Int8Rows, activations: Int8Activations) -> Self {
        let sum = |row: &[i8]| row.iter().map(|&value| i32::from(value)).sum();
        let sums = rows.values().chunks_exact(rows.columns()).map(sum).collect();
        Self { rows, sums, activations }
    }

    pub fn rows(&self) -> &Int8Rows {
        &self.rows
    }

    pub fn quant_state_bytes(&self) -> QuantStateBytes {
        let of_activations = match &self.activations {
            Int8Activations::Dynamic { .. } => 0,
            Int8Activations::Static { factors, .. } => size_of_val(factors.as_slice()),
        };
        let all = size_of_val(self.rows.scb()) + size_of_val(self.sums.as_slice()) + of_activations;
        QuantStateBytes { all, unread: 0 }
    }

    /// What kernels read.
    pub fn weights(&self) -> Int8<'_> {
        let inputs = match &self.activations {
            Int8Activations::Dynamic { threshold } => cpu::Inputs::Dynamic { threshold: *threshold },
            Int8Activations::Static { factors, scale } => cpu::Inputs::Static { factors, scale: *scale },
        };
        Int8 { values: self.rows.values(), absmax: self.rows.scb(), sums: &self.sums, inputs }
    }
}
