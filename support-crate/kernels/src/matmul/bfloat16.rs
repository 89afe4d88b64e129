//! Products with weights in bfloat16. Inputs are rounded to it too; sums are float32.

use std::ops::Range;

use half::bf16;

use super::decode::{Target, Widened};
use super::decoded::{DecodeRow, Part};
use super::{Gemm, Operands, Product, Weights, row_stride, split_rows};
#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::elementwise;
#[cfg(target_arch = "x86_64")]
use crate::isa::Isa;
use crate::scratch::Scratch;
#[cfg(target_arch = "x86_64")]
use crate::simd::Avx512Bf16;
use crate::simd::Dispatch;
use crate::sizes;

/// From this many rows of inputs on, processors that multiply bfloat16 as float32 widen weights once for all of them
/// rather than with each load. With fewer rows, writing the weights to memory and reading them back does not pay off.
const WIDENED_ONCE: usize = 12;

/// 2 bytes a number.
impl Weights for &[bf16] {
    fn multiply(&self, mut product: Product<'_>) {
        sizes::check("weights", self.len(), &[product.n, product.k]);
        product.parts().for_each(|part| multiply(self, part));
    }
}

fn multiply(weights: &[bf16], product: Product<'_>) {
    let Product { scope, isa, x, k, .. } = product;
    let m = product.m();
    if m < WIDENED_ONCE || isa.multiplies_bf16() {
        let stride = row_stride::<bf16>(isa, k);
        let mut rounded = Scratch::<bf16>::uninit(m * stride);
        split_rows(scope, &mut rounded, (stride, k), &|row, out| {
            elementwise::round_to_bf16(isa, &x[row * k..(row + 1) * k], out);
        });
        #[cfg(target_arch = "x86_64")]
        if let Isa::Amx(amx) = isa {
            return amx::multiply(amx, &rounded, &Rows { weights, k }, product);
        }
        let operands = Operands { weights, x: &rounded, x_stride: stride, m, k };
        return product.divide(m * k, &|rows, out| isa.dispatch_bf16(Gemm { operands, rows, out }));
    }
    let stride = row_stride::<f32>(isa, k);
    let mut rounded = Scratch::<Widened>::uninit(m * stride);
    split_rows(scope, &mut rounded, (stride, k), &|row, out| {
        out.iter_mut().zip(&x[row * k..]).for_each(|(out, x)| *out = Widened::nearest(*x));
    });
    let x = (&*rounded, stride);
    product.divide(m * k, &|rows, out| isa.dispatch(Part { x, weights: Rows { weights, k }, m, k, rows, out }));
}

/// Rows of `k` weights.
struct Rows<'a> {
    weights: &'a [bf16],
    k: usize,
}

impl<S> DecodeRow<S, Widened> for Rows<'_> {
    #[inline(always)]
    fn decode_row(&self, _: S, row: usize, along: Range<usize>, out: &mut [Widened]) {
        let weights = &self.weights[row * self.k..][along];
        out.iter_mut().zip(weights).for_each(|(out, weight)| *out = Widened::of(*weight));
    }
}

/// To be multiplied in tiles.
#[cfg(target_arch = "x86_64")]
impl amx::TileProduct for Rows<'_> {
    type Number = bf16;

    #[inline(always)]
    fn stored(&self) -> Option<&[bf16]> {
        Some(self.weights)
    }

    #[inline(always)]
    fn row(&self, _: Avx512Bf16, row: usize, columns: Range<usize>, out: &mut [bf16]) {
        out.copy_from_slice(&self.weights[row * self.k..][columns]);
    }
}
