//! The product of one matrix, as the engine `kernels` computes it: to compare one's own with.

use quantlab_kernels::{
    ActivationQuant, Compute, Epilogue, Matrix, Packed4Bit, PackedInt8, Weights as KernelWeights, matmul, thread_scope,
};

use crate::quant::FourBit;

/// A matrix of weights (n, k), row by row, in a format that the engine `kernels` multiplies.
#[derive(Debug, Clone, Copy)]
pub enum WeightMatrix<'a> {
    /// 4 bytes each.
    Float32(&'a [f32]),
    /// A byte each; inputs are rounded to int8 too, by their largest magnitude ([`Int8Rows`](crate::quant::Int8Rows)).
    Int8 {
        /// Whole numbers: (n, k).
        values: &'a [i8],
        /// The largest magnitude of each row: (n). A weight is `value * scb / 127`.
        scb: &'a [f32],
        /// The sum of each row's values: (n).
        sums: &'a [i32],
    },
    /// Half a byte each, in blocks that run over the rows ([`Quantized4Bit`](crate::quant::Quantized4Bit)).
    FourBit {
        /// Two codes a byte, the first in the upper half.
        packed: &'a [u8],
        /// The largest magnitude of each block.
        absmax: &'a [f32],
        /// What the codes stand for.
        quant_type: FourBit,
        /// Weights in a block.
        blocksize: usize,
    },
}

impl WeightMatrix<'_> {
    /// `out[n] = sum_k weights[n, k] * x[k]`, by the kernels and threads that models of the engine `kernels` use: `x` is (k),
    /// and `out` (n).
    ///
    /// ```
    /// use quantlab::model::WeightMatrix;
    ///
    /// let mut out = [0.0; 2];
    /// WeightMatrix::Float32(&[1.0, 2.0, 3.0, 4.0]).multiply(&[10.0, 1.0], &mut out);
    /// assert_eq!(out, [12.0, 34.0]);
    /// ```
    ///
    /// # Panics
    /// No inputs; weights, scales or sums that are not those of a matrix (n, k); blocks that are not a multiple of 32.
    pub fn multiply(&self, x: &[f32], out: &mut [f32]) {
        match *self {
            Self::Float32(weights) => multiply(&weights, x, out),
            Self::Int8 { values, scb, sums } => {
                let activations = ActivationQuant::Dynamic { threshold: 0.0 };
                multiply(&PackedInt8 { values, absmax: scb, sums, activations }, x, out);
            }
            Self::FourBit { packed, absmax, quant_type, blocksize } => {
                let (code, compute) = (quant_type.codebook(), Compute::Float32);
                multiply(
                    &Packed4Bit { packed, absmax, minimum: None, code, blocksize, columns: None, compute },
                    x,
                    out,
                );
            }
        }
    }
}

fn multiply(weights: &dyn KernelWeights, x: &[f32], out: &mut [f32]) {
    let matrix = Matrix { weights, n: out.len(), k: x.len() };
    matmul(&thread_scope(), x, matrix, Epilogue::default(), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{Absmax, FourBitOptions, Int8Rows, Quantized4Bit};

    #[test]
    fn each_format_is_multiplied_as_the_numbers_that_it_stands_for() {
        let (n, k) = (5, 128);
        let weights: Vec<f32> = (0..n * k).map(|i| (i as f32 * 0.37).sin()).collect();
        let x: Vec<f32> = (0..k).map(|i| (i as f32 * 0.71).cos()).collect();
        let near = |matrix: WeightMatrix<'_>, restored: &[f32], most: f32| {
            let mut out = vec![0.0; n];
            matrix.multiply(&x, &mut out);
            for (row, out) in restored.chunks_exact(k).zip(out) {
                let expected: f32 = row.iter().zip(&x).map(|(w, x)| w * x).sum();
                assert!((out - expected).abs() < most, "{out}, expected {expected}");
            }
        };
        near(WeightMatrix::Float32(&weights), &weights, 1e-4);
        let int8 = Int8Rows::quantize(&weights, k).unwrap();
        let sums: Vec<i32> = int8.values().chunks_exact(k).map(|row| row.iter().map(|&v| i32::from(v)).sum()).collect();
        let matrix = WeightMatrix::Int8 { values: int8.values(), scb: int8.scb(), sums: &sums };
        // Inputs are rounded, by at most 1/254 each.
        near(matrix, &int8.dequantize::<f32>(), k as f32 / 254.0);
        for quant_type in FourBit::ALL {
            let options = FourBitOptions { quant_type, ..FourBitOptions::default() };
            let four = Quantized4Bit::quantize(&weights, &[n, k], options).unwrap();
            let Absmax::Float32(absmax) = four.absmax() else { panic!("nested") };
            let matrix = WeightMatrix::FourBit { packed: four.packed(), absmax, quant_type, blocksize: 64 };
            near(matrix, &four.dequantize::<f32>(), 1e-4);
        }
    }
}
