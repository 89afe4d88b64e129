//! Products with weights in bfloat16. Inputs are rounded to it too; sums are float32.

#[cfg(target_arch = "x86_64")]
use std::ops::Range;

use half::bf16;

use super::decode::{Target, Widened};
use super::decoded::{Part, Rows};
use super::{Gemm, Operands, Product, Weights};
#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::elementwise;
#[cfg(target_arch = "x86_64")]
use crate::isa::Isa;
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
    let Product { isa, k, .. } = product;
    let m = product.m();
    if m < WIDENED_ONCE || isa.multiplies_bf16() {
        let (rounded, x_stride) = product.rows_apart(&|x, out| elementwise::round_to_bf16(isa, x, out));
        #[cfg(target_arch = "x86_64")]
        if let Isa::Amx(amx) = isa {
            return amx::multiply(amx, &rounded, &Rows { weights, k }, product);
        }
        let operands = Operands { weights, x: &rounded, x_stride, m, k };
        return product.divide(m * k, &|rows, out| isa.dispatch_bf16(Gemm { operands, rows, out }));
    }
    let (rounded, stride) = product.rows_apart(&|x, out| {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = Widened::nearest(*x));
    });
    let x = (&*rounded, stride);
    product.divide(m * k, &|rows, out| isa.dispatch(Part { x, weights: Rows { weights, k }, m, k, rows, out }));
}

/// To be multiplied in tiles.
#[cfg(target_arch = "x86_64")]
impl amx::TileProduct for Rows<'_, bf16> {
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
