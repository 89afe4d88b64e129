//! Products with weights in float32.

use super::{Gemm, Operands, Product, Weights, row_stride, split_rows};
use crate::scratch::Scratch;
use crate::simd::Dispatch;
use crate::sizes;

/// From this many rows of inputs on, it pays to copy them so that they are [`row_stride`] apart.
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
    let (m, stride) = (product.m(), row_stride::<f32>(isa, k));
    let copy = (stride != k && m >= MIN_COPIED_ROWS).then(|| {
        let mut copy = Scratch::<f32>::uninit(m * stride);
        split_rows(scope, &mut copy, (stride, k), &|row, out| out.copy_from_slice(&x[row * k..(row + 1) * k]));
        copy
    });
    let (x, x_stride) = copy.as_ref().map_or((x, k), |copy| (&**copy, stride));
    let operands = Operands { weights, x, x_stride, m, k };
    product.divide(m * k, &|rows, out| isa.dispatch(Gemm { operands, rows, out }));
}
