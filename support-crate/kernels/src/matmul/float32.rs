//! Products with weights in float32.

use std::ops::Range;

use super::decoded::{DecodeRow, Part};
use super::{Gemm, Operands, Product, Weights, row_stride, split_rows};
use crate::scratch::Scratch;
use crate::simd::Dispatch;
use crate::sizes;

/// From this many rows of inputs on, it pays to copy both factors, so that vectors do not straddle two lines of the cache
/// and rows of inputs are [`row_stride`] apart.
const MIN_COPIED_ROWS: usize = 12;

/// 4 bytes a number.
impl Weights for &[f32] {
    fn multiply(&self, mut product: Product<'_>) {
        sizes::check("weights", self.len(), &[product.n, product.k]);
        product.parts().for_each(|part| multiply(self, part));
    }
}

fn multiply(weights: &[f32], product: Product<'_>) {
    let Product { scope, isa, x, k, .. } = product;
    let m = product.m();
    if m < MIN_COPIED_ROWS {
        let operands = Operands { weights, x, x_stride: k, m, k };
        return product.divide(m * k, &|rows, out| isa.dispatch(Gemm { operands, rows, out }));
    }
    let stride = row_stride::<f32>(isa, k);
    let mut copy = Scratch::<f32>::uninit(m * stride);
    split_rows(scope, &mut copy, (stride, k), &|row, out| out.copy_from_slice(&x[row * k..(row + 1) * k]));
    let x = (&*copy, stride);
    product.divide(m * k, &|rows, out| isa.dispatch(Part { x, weights: Rows { weights, k }, m, k, rows, out }));
}

/// Rows of `k` weights.
struct Rows<'a> {
    weights: &'a [f32],
    k: usize,
}

impl<S> DecodeRow<S, f32> for Rows<'_> {
    #[inline(always)]
    fn decode_row(&self, _: S, row: usize, along: Range<usize>, out: &mut [f32]) {
        out.copy_from_slice(&self.weights[row * self.k..][along]);
    }
}
