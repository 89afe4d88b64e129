//! Products with weights in bfloat16. Inputs are rounded to it too; sums are float32.

use std::ops::Range;

use half::bf16;

use super::decode::{Target, Widened};
use super::{Epilogue, decoded, divide, full};
use crate::elementwise;
use crate::isa::Isa;
use crate::scratch::Scratch;
use crate::simd::{Kernel, Simd};
use crate::strided::Block;
use crate::threads::ThreadScope;

/// From so many rows of inputs on, processors that multiply bfloat16 as float32 widen weights once for all of them
/// and not with each load. Fewer rows would not pay for writing the weights to memory and reading them back.
const WIDENED_ONCE: usize = 12;

/// `out[m, n] = sum_k x[m, k] * weight[n, k]`, and what the epilogue says.
pub fn matmul(
    isa: Isa,
    scope: &ThreadScope,
    x: &[f32],
    weights: &[bf16],
    k: usize,
    epilogue: Epilogue<'_>,
    out: &mut [f32],
) {
    let m = x.len() / k;
    if m < WIDENED_ONCE || isa.multiplies_bf16() {
        let mut rounded = Scratch::<bf16>::any(x.len());
        scope.split_mut(&mut rounded, 1, 4, &|first, out| {
            elementwise::round_to_bf16(isa, &x[first..first + out.len()], out);
        });
        return full(isa, scope, (&rounded, weights, k), epilogue, out, &|gemm| isa.dispatch_bf16(gemm));
    }
    assert_eq!(weights.len() * m, out.len() * k, "weights of another shape than ({}, {k})", out.len() / m);
    let mut rounded = Scratch::<Widened>::any(x.len());
    scope.split_mut(&mut rounded, 1, 4, &|first, out| {
        out.iter_mut().zip(&x[first..]).for_each(|(out, x)| *out = Widened::nearest(*x));
    });
    let x = &*rounded;
    divide(isa, scope, out, m, m * k, epilogue, &|rows, out| isa.dispatch(Part { x, weights, m, k, rows, out }));
}

/// A thread's rows of weights.
struct Part<'a> {
    /// (m, k)
    x: &'a [Widened],
    weights: &'a [bf16],
    m: usize,
    k: usize,
    rows: Range<usize>,
    out: Block<'a, f32>,
}

impl<S: Simd> Kernel<S> for Part<'_> {
    #[inline(always)]
    fn run(self, simd: S) {
        let Self { x, weights, m, k, rows, mut out } = self;
        decoded::multiply(simd, x, (m, k), rows, &mut out, |row, along, out| {
            let weights = &weights[row * k + along.start..row * k + along.end];
            out.iter_mut().zip(weights).for_each(|(out, weight)| *out = Widened::of(*weight));
        });
    }
}
