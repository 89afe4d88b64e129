//! Products with affine int4 in groups, and inputs that are rounded to 8 bits, with a scale for each 32 of a row: W4A8.
//!
//! Sums of 32 products of 4-bit and 8-bit numbers are exact; the numbers that they stand for are added in float32, in
//! an order that is the same whatever the shape of the product.
//!
//! Source: `ggml_vec_dot_q4_1_q8_1` in llama.cpp, whose scales of inputs are rounded to float16.

use std::ops::Range;

use super::gemm::blocks;
use super::packed4bit::AHEAD;
use super::{Product, Weights};
use crate::elementwise;
use crate::isa::Isa;
use crate::rounding::{LARGEST, int8_factor};
use crate::scratch::Scratch;
use crate::simd::{Kernel, Simd};
use crate::sizes;
use crate::strided::Block;

/// A matrix (n, k) whose rows are whole groups: a weight is `scale * code + minimum`, with codes from 0 to 15.
#[derive(Debug, Clone, Copy)]
pub struct GroupedInt4<'a> {
    /// Two codes each: the first in the upper half.
    pub packed: &'a [u8],
    /// The scale of each group: (n, k / group).
    pub scales: &'a [f32],
    /// What a code of 0 stands for in each group: (n, k / group).
    pub minima: &'a [f32],
    /// Weights of a row that share a scale: a multiple of 32.
    pub group: usize,
}

/// Inputs that share a scale.
const BLOCK: usize = 32;

/// The most bytes of codes in a vector.
const MAX_BYTES: usize = 64;

impl GroupedInt4<'_> {
    /// Panics unless this is a matrix (n, k).
    fn check(&self, n: usize, k: usize) {
        let Self { packed, scales, minima, group } = *self;
        assert!(group > 0 && group.is_multiple_of(BLOCK), "groups cannot have {group} numbers");
        assert!(k.is_multiple_of(group), "rows of {k} numbers are not whole groups of {group}");
        sizes::check("weights", packed.len(), &[n, k / 2]);
        sizes::check("scales", scales.len(), &[n, k / group]);
        sizes::check("minima", minima.len(), &[n, k / group]);
    }
}

impl Weights for GroupedInt4<'_> {
    fn multiply(&self, mut product: Product<'_>) {
        self.check(product.n, product.k);
        let isa = product.isa.without_tiles();
        product.parts().for_each(|product| {
            let (m, k) = (product.m(), product.k);
            let inputs = &round(isa, *self, &product);
            product.divide(m * k / 4, &|rows, out| {
                isa.dispatch_bytes(Part { weights: *self, inputs, m, k, rows, out });
            });
        });
    }
}

/// Rows of inputs in 8 bits.
struct Rounded {
    /// `width` bytes for each row, in the order in which [`Simd::load_halves`] returns numbers, padded with zeros.
    values: Scratch<i8>,
    width: usize,
    /// The value of a step of the inputs that are summed in a lane: `lanes` numbers for each row.
    steps: Scratch<f32>,
    lanes: usize,
    /// The sum of all inputs of each group: (m, k / group).
    sums: Scratch<f32>,
}

fn round(isa: Isa, weights: GroupedInt4<'_>, product: &Product<'_>) -> Rounded {
    let Product { scope, x, k, .. } = *product;
    let (m, Shape { bytes, lanes_of_block }) = (product.m(), Shape::of(isa));
    let (width, groups, blocks) = (k.next_multiple_of(2 * bytes), k / weights.group, k / BLOCK);
    let lanes = width / BLOCK * lanes_of_block;
    let mut largest = Scratch::<f32>::uninit(m * blocks);
    scope.split_mut(&mut largest, 1, 2 * BLOCK, &|first, out| {
        for (largest, x) in out.iter_mut().zip(x[first * BLOCK..].chunks_exact(BLOCK)) {
            *largest = elementwise::absmax_up_to(isa, x, f32::INFINITY);
        }
    });
    let mut in_order = Scratch::<i8>::uninit(m * k);
    scope.split_mut(&mut in_order, BLOCK, 4 * BLOCK, &|first, out| {
        let blocks = out.chunks_exact_mut(BLOCK).zip(x[first * BLOCK..].chunks_exact(BLOCK));
        for ((out, x), largest) in blocks.zip(&largest[first..]) {
            elementwise::to_bytes(isa, x, int8_factor(*largest), out);
        }
    });
    let mut values = Scratch::<i8>::uninit(m * width);
    scope.split_mut(&mut values, width, 4 * width, &|first, out| {
        for (row, out) in in_order[first * k..].chunks_exact(k).zip(out.chunks_exact_mut(width)) {
            for (from, to) in row.chunks(2 * bytes).zip(out.chunks_exact_mut(2 * bytes)) {
                let (firsts, seconds) = to.split_at_mut(bytes);
                firsts[from.len() / 2..].fill(0);
                seconds[from.len() / 2..].fill(0);
                for ((pair, first), second) in from.chunks_exact(2).zip(firsts).zip(seconds) {
                    (*first, *second) = (pair[0], pair[1]);
                }
            }
        }
    });
    let (mut steps, mut sums) = (Scratch::<f32>::uninit(m * lanes), Scratch::<f32>::uninit(m * groups));
    scope.split_mut(&mut steps, lanes, lanes, &|first, out| {
        for (of_row, out) in largest[first * blocks..].chunks_exact(blocks).zip(out.chunks_exact_mut(lanes)) {
            out[blocks * lanes_of_block..].fill(0.0);
            for (largest, out) in of_row.iter().zip(out.chunks_exact_mut(lanes_of_block)) {
                out.fill(largest / LARGEST);
            }
        }
    });
    scope.split_mut(&mut sums, 1, weights.group, &|first, out| {
        let of_group = weights.group / BLOCK;
        for (group, out) in (first..).zip(out) {
            let blocks = in_order[group * weights.group..].chunks_exact(BLOCK).zip(&largest[group * of_group..]);
            let sum = |(block, largest): (&[i8], &f32)| {
                block.iter().map(|&value| i32::from(value)).sum::<i32>() as f32 * (largest / LARGEST)
            };
            *out = blocks.take(of_group).map(sum).sum();
        }
    });
    Rounded { values, width, steps, lanes, sums }
}

/// A thread's rows of weights.
struct Part<'a> {
    weights: GroupedInt4<'a>,
    inputs: &'a Rounded,
    m: usize,
    k: usize,
    rows: Range<usize>,
    out: Block<'a, f32>,
}

/// How an instruction set takes bytes: how many at once, and over how many lanes, of one vector or of several, the
/// products of 32 numbers are summed.
struct Shape {
    bytes: usize,
    lanes_of_block: usize,
}

impl Shape {
    fn of(isa: Isa) -> Self {
        let mut shape = Self { bytes: 0, lanes_of_block: 0 };
        struct Ask<'a>(&'a mut Shape);
        impl<S: Simd> Kernel<S> for Ask<'_> {
            #[inline(always)]
            fn run(self, _: S) {
                *self.0 = Shape { bytes: S::BYTES, lanes_of_block: S::LANES * BLOCK / (2 * S::BYTES) };
            }
        }
        isa.dispatch_bytes(Ask(&mut shape));
        shape
    }
}

impl<S: Simd> Kernel<S> for Part<'_> {
    #[inline(always)]
    fn run(mut self, simd: S) {
        for inputs in blocks(0..self.m, 4) {
            match inputs.len() {
                1 => self.rows_of_tiles::<S, 1>(simd, inputs.start),
                2 => self.rows_of_tiles::<S, 2>(simd, inputs.start),
                3 => self.rows_of_tiles::<S, 3>(simd, inputs.start),
                _ => self.rows_of_tiles::<S, 4>(simd, inputs.start),
            }
        }
    }
}

impl Part<'_> {
    #[inline(always)]
    fn rows_of_tiles<S: Simd, const M: usize>(&mut self, simd: S, m: usize) {
        let mut n = self.rows.start;
        while n + 4 <= self.rows.end {
            self.tile::<S, M, 4>(simd, m, n);
            n += 4;
        }
        while n < self.rows.end {
            self.tile::<S, M, 1>(simd, m, n);
            n += 1;
        }
    }

    /// Adds the products of `M` inputs from `m` on with `N` rows of weights from `n` on to the outputs.
    #[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
    #[inline(always)]
    fn tile<S: Simd, const M: usize, const N: usize>(&mut self, simd: S, m: usize, n: usize) {
        let Self { weights: GroupedInt4 { packed, scales, minima, group }, inputs, k, .. } = *self;
        let Rounded { values, width, steps, lanes, sums: input_sums } = inputs;
        let groups = k / group;
        let chunk = 2 * S::BYTES;
        // As much as this tile will read, in the order of memory.
        let next = packed.as_ptr().wrapping_add((n + N) * k / 2 + AHEAD);
        let mut sums = [[simd.zero(); N]; M];
        for (at, start) in (0..k).step_by(chunk).enumerate() {
            let len = chunk.min(k - start);
            let groups_of_blocks = GroupsOfBlocks::new(start, len, group, groups);
            for j in 0..N {
                simd.prefetch(next.wrapping_add((start * N + j * chunk) / 2));
                let codes = &packed[((n + j) * k + start) / 2..][..len / 2];
                let mut padded = [0_u8; MAX_BYTES];
                let from = if len == chunk {
                    codes.as_ptr()
                } else {
                    padded[..codes.len()].copy_from_slice(codes);
                    padded.as_ptr()
                };
                let scale = groups_of_blocks.scales(simd, &scales[(n + j) * groups..(n + j + 1) * groups]);
                // SAFETY: there are `BYTES` bytes of this row, or of its padded rest; for every chunk, each input has
                // twice as many bytes, and as many steps as a vector has lanes.
                unsafe {
                    let (firsts, seconds) = simd.load_halves(from);
                    for i in 0..M {
                        let x = values.as_ptr().add((m + i) * width + at * chunk);
                        let sum = simd.half_dot(firsts, simd.load_bytes(x), simd.zero_i32());
                        let sum = simd.half_dot(seconds, simd.load_bytes(x.add(S::BYTES)), sum);
                        let step = simd.load(steps.as_ptr().add((m + i) * lanes + at * S::LANES));
                        sums[i][j] = simd.mul_add(simd.to_f32(sum), simd.mul_add(scale, step, simd.zero()), sums[i][j]);
                    }
                }
            }
        }
        for i in 0..M {
            let of_groups = &input_sums[(m + i) * groups..(m + i + 1) * groups];
            let out = &mut self.out.row(m + i)[n - self.rows.start..][..N];
            for four in (0..N).step_by(4) {
                let mut above = [simd.zero(); 4];
                let mut below = [simd.zero(); 4];
                for j in four..N.min(four + 4) {
                    above[j - four] = sums[i][j];
                    below[j - four] = dot(simd, of_groups, &minima[(n + j) * groups..(n + j + 1) * groups]);
                }
                let (above, below) = (simd.sums(above), simd.sums(below));
                for j in four..N.min(four + 4) {
                    out[j] += above[j - four] + below[j - four];
                }
            }
        }
    }
}

/// Sums of the products of two slices that are equally long.
#[inline(always)]
fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> S::F32 {
    assert_eq!(a.len(), b.len());
    let whole = a.len() - a.len() % S::LANES;
    let mut sums = simd.zero();
    // SAFETY: whole vectors, and a part of one, of slices that are equally long.
    unsafe {
        for at in (0..whole).step_by(S::LANES) {
            sums = simd.mul_add(simd.load(a.as_ptr().add(at)), simd.load(b.as_ptr().add(at)), sums);
        }
        if whole < a.len() {
            let rest = a.len() - whole;
            let (a, b) = (a.as_ptr().add(whole), b.as_ptr().add(whole));
            sums = simd.mul_add(simd.load_part(a, rest), simd.load_part(b, rest), sums);
        }
    }
    sums
}

/// The groups that the blocks of a vector of codes belong to.
enum GroupsOfBlocks {
    /// All to one.
    One(usize),
    /// Consecutive groups, from the first on: a vector has at most 4 blocks.
    Next(usize),
    Any([usize; 4]),
}

impl GroupsOfBlocks {
    /// The groups of `len` numbers from number `start` on, in a row of `groups` groups.
    #[inline(always)]
    fn new(start: usize, len: usize, group: usize, groups: usize) -> Self {
        let first = start / group;
        if start + len <= (first + 1) * group {
            Self::One(first)
        } else if group == BLOCK && first + 4 <= groups {
            Self::Next(first)
        } else {
            // Beyond the end of the row, inputs are zeros.
            Self::Any([0, 1, 2, 3].map(|block| ((start + block * BLOCK) / group).min(groups - 1)))
        }
    }

    #[inline(always)]
    fn scales<S: Simd>(&self, simd: S, of_row: &[f32]) -> S::F32 {
        match *self {
            Self::One(group) => simd.splat(of_row[group]),
            Self::Next(first) => match of_row[first..].first_chunk() {
                Some(four) => simd.spread(*four),
                None => simd.zero(),
            },
            Self::Any([a, b, c, d]) => simd.spread([of_row[a], of_row[b], of_row[c], of_row[d]]),
        }
    }
}

#[cfg(test)]
#[path = "grouped_int4_tests.rs"]
mod tests;
