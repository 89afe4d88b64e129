//! Weights that are decoded, or copied, into memory, some rows at a time, and then multiplied as others are.

use std::ops::Range;

use super::gemm::{Factor, INPUT_BLOCK, Panel, blocks};
use crate::scratch::Aligned;
use crate::simd::{Kernel, Simd};
use crate::sizes::hold_rows;
use crate::strided::Block;

/// The most rows of weights that are decoded at once.
const ROWS: usize = 6;

/// Numbers along K that are decoded at once.
pub const K_BLOCK: usize = 1024;

/// Weights that can be decoded row by row. (Not a closure: the compiler may leave one outside of the function that has
/// the instructions enabled, which is ten times slower.)
pub trait DecodeRow<S, T> {
    /// Writes the numbers `along` of a row of weights. Implementations are `#[inline(always)]`.
    fn decode_row(&self, simd: S, row: usize, along: Range<usize>, out: &mut [T]);
}

/// Rows of `k` weights that are stored as numbers, and become those that are multiplied.
pub struct Rows<'a, W> {
    pub weights: &'a [W],
    pub k: usize,
}

impl<S, W: Copy, T: From<W>> DecodeRow<S, T> for Rows<'_, W> {
    #[inline(always)]
    fn decode_row(&self, _: S, row: usize, along: Range<usize>, out: &mut [T]) {
        let weights = &self.weights[row * self.k..][along];
        out.iter_mut().zip(weights).for_each(|(out, weight)| *out = T::from(*weight));
    }
}

/// A thread's rows of weights, which are all decoded.
pub struct Part<'a, T, W> {
    /// (m, k), and how far apart the rows are.
    pub x: (&'a [T], usize),
    pub weights: W,
    pub m: usize,
    pub k: usize,
    pub rows: Range<usize>,
    pub out: Block<'a, f32>,
}

impl<S: Simd, T: Factor<S, Sum = f32> + Default, W: DecodeRow<S, T>> Kernel<S> for Part<'_, T, W> {
    #[inline(always)]
    fn run(mut self, simd: S) {
        multiply(simd, self.x, (self.m, self.k), self.rows, &mut self.out, &self.weights);
    }
}

/// Adds the products of all inputs, (m, k) with rows `x_stride` apart, with the rows `rows` of weights to `out`, (m, rows).
#[inline(always)]
pub fn multiply<S: Simd, T: Factor<S, Sum = f32> + Default>(
    simd: S,
    (x, x_stride): (&[T], usize),
    (m, k): (usize, usize),
    rows: Range<usize>,
    out: &mut Block<'_, f32>,
    weights: &impl DecodeRow<S, T>,
) {
    const { assert!(K_BLOCK == <T as Factor<S>>::K_BLOCK, "a row's sums depend on whether weights are decoded") };
    assert!(hold_rows(x.len(), m, x_stride, k), "rows of inputs");
    let mut numbers = Aligned([T::default(); ROWS * K_BLOCK]);
    for inputs in blocks(0..m, INPUT_BLOCK) {
        for along in blocks(0..k, K_BLOCK) {
            for some in blocks(rows.clone(), S::TILE.1) {
                for (row, numbers) in some.clone().zip(numbers.0.chunks_exact_mut(K_BLOCK)) {
                    weights.decode_row(simd, row, along.clone(), &mut numbers[..along.len()]);
                }
                let panel = |j: usize| Panel {
                    weights: &numbers.0[j * K_BLOCK..],
                    weights_stride: K_BLOCK,
                    x: &x[along.start..],
                    x_stride,
                    len: along.len(),
                    next: None,
                };
                let column = some.start - rows.start;
                if const { S::TILE.1 == 6 } && some.len() == 6 {
                    panel(0).multiply::<S, 4, 6>(simd, inputs.clone(), column, out);
                } else if const { S::TILE.1 == 4 } && some.len() == 4 {
                    panel(0).multiply::<S, 3, 4>(simd, inputs.clone(), column, out);
                } else {
                    for j in 0..some.len() {
                        panel(j).multiply::<S, 4, 1>(simd, inputs.clone(), column + j, out);
                    }
                }
            }
        }
    }
}
