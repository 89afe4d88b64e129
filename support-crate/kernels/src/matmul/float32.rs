//! Products with weights in float32.

use super::decoded::{Part, Rows};
use super::{Gemm, Operands, Product, Weights};
use crate::simd::Dispatch;
use crate::sizes;

/// From this many rows of inputs on, it pays to copy both factors, so that vectors do not straddle two lines of the cache
/// and rows of inputs are [`Product::rows_apart`].
const MIN_COPIED_ROWS: usize = 12;

/// 4 bytes a number.
impl Weights for &[f32] {
    fn multiply(&self, product: Product<'_>) {
        sizes::check("weights", self.len(), &[product.n, product.k]);
        product.without_tiles().parts().for_each(|part| multiply(self, part));
    }
}

fn multiply(weights: &[f32], product: Product<'_>) {
    let Product { isa, x, k, .. } = product;
    let m = product.m();
    if m < MIN_COPIED_ROWS {
        let operands = Operands { weights, x, x_stride: k, m, k };
        return product.divide(m * k, &|rows, out| isa.dispatch(Gemm { operands, rows, out }));
    }
    let (copy, stride) = product.rows_apart(&|x, out| out.copy_from_slice(x));
    let x = (&*copy, stride);
    product.divide(m * k, &|rows, out| isa.dispatch(Part { x, weights: Rows { weights, k }, m, k, rows, out }));
}
