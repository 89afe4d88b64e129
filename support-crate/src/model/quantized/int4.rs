//! Groups of 4-bit weights with zero points.

use quantlab_kernels::{Compute, Packed4Bit, Product, Weights as KernelWeights};

use super::four_bit::compute;
use super::parts::{FullPrecision, in_parts};
use super::{Operands, QuantizedWeight, StateBytes, no_checkpoint};
use crate::error::Result;
use crate::model::Precision;
use crate::model::weights::StateTensor;
use crate::quant::{AffineInt4, quantize_int4_groups};

/// A matrix of affine int4.
#[derive(Debug)]
pub(super) struct Int4Matrix {
    quantized: AffineInt4,
    compute: Compute,
}

/// Quantizes weights of full precision.
///
/// # Errors
/// A weight that is NaN or infinite, by output and input; rows that are not whole groups.
pub(super) fn quantize(weights: FullPrecision<'_>, group_size: usize) -> Result<AffineInt4> {
    let k = weights.tensor.shape[1];
    AffineInt4::check_rows(k, group_size)?;
    let (packed, scales) = in_parts(weights, (2, group_size), |numbers, packed, scales| {
        quantize_int4_groups(numbers, group_size, packed, scales)
    })?;
    AffineInt4::with_packed(packed, &scales, k, group_size)
}

impl Int4Matrix {
    /// To be multiplied in `compute_dtype`.
    pub fn new(quantized: AffineInt4, compute_dtype: Precision) -> Self {
        Self { quantized, compute: compute(compute_dtype) }
    }

    fn view(&self) -> Packed4Bit<'_> {
        Packed4Bit {
            packed: self.quantized.packed(),
            absmax: self.quantized.scales(),
            minimum: Some(self.quantized.minima()),
            code: &AffineInt4::CODES,
            blocksize: self.quantized.group_size(),
            columns: None,
            compute: self.compute,
        }
    }
}

impl KernelWeights for Int4Matrix {
    fn multiply(&self, product: Product<'_>) {
        self.view().multiply(product);
    }
}

impl QuantizedWeight for Int4Matrix {
    fn shape(&self) -> [usize; 2] {
        let k = self.quantized.columns();
        [self.quantized.minima().len() * self.quantized.group_size() / k, k]
    }

    fn code_bytes(&self) -> usize {
        let [n, k] = self.shape();
        n * k / 2
    }

    fn state_bytes(&self) -> StateBytes {
        StateBytes { all: 2 * size_of_val(self.quantized.scales()), unread: 0 }
    }

    fn operands(&self) -> Option<Operands<'_>> {
        Some(Operands::FourBit(self.view()))
    }

    fn forget_codes(&mut self) {
        self.quantized.forget_packed();
    }

    fn state_dict<'a>(&'a self, _: &str) -> Result<Vec<StateTensor<'a>>> {
        Err(no_checkpoint())
    }
}
