//! Quantized matrices as kernels read them.

use quantlab_kernels::{ActivationQuant, Compute, Packed4Bit, PackedInt8, Product, Weights};

use super::Kernels;
use crate::model::Precision;
use crate::model::decoder::{Int8Activations, Matrix, QuantStateBytes};
use crate::quant::{Absmax, Int8Rows, Quantized4Bit};

impl Matrix<Kernels> {
    /// What kernels multiply.
    pub fn weights(&self) -> &dyn Weights {
        match self {
            Self::Full(array) => array,
            Self::FourBit(matrix) => matrix,
            Self::Int8(matrix) => matrix,
        }
    }
}

impl Weights for FourBitMatrix {
    fn multiply(&self, product: Product<'_>) {
        self.view(self.compute_dtype).multiply(product);
    }
}

impl Weights for Int8Matrix {
    fn multiply(&self, product: Product<'_>) {
        self.view().multiply(product);
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

    /// What kernels read, to multiply in `compute_dtype`; what is neither float32 nor bfloat16 is float32.
    pub fn view(&self, compute_dtype: Precision) -> Packed4Bit<'_> {
        Packed4Bit {
            packed: self.quantized.packed(),
            absmax: self.absmax(),
            minimum: None,
            code: self.quantized.quant_type().codebook(),
            blocksize: self.quantized.blocksize(),
            columns: None,
            compute: if compute_dtype == Precision::BFloat16 { Compute::BFloat16 } else { Compute::Float32 },
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
    pub fn view(&self) -> PackedInt8<'_> {
        let activations = match &self.activations {
            Int8Activations::Dynamic { threshold } => ActivationQuant::Dynamic { threshold: *threshold },
            Int8Activations::Static { factors, scale } => ActivationQuant::Static { factors, scale: *scale },
        };
        let (values, absmax) = (self.rows.values(), self.rows.scb());
        PackedInt8 { values, absmax, sums: &self.sums, activations }
    }
}
