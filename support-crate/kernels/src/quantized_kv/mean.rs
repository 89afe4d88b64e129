//! The mean of values by their scores.

use std::ops::Range;

use super::attention::{recent_parts, widen};
use super::codes::{Code, Packing};
use super::{GROUP, Head, Sizes};
use crate::matmul::Stored;
use crate::simd::Simd;
use crate::strided::Block;

/// `out[m, d] = sum_s scores[m, s] values[s, d] / sum_s scores[m, s]`, as `weighted_mean` of [`crate::attention`], of
/// groups of codes and then of recent tokens.
pub struct Mean<'a> {
    pub scores: &'a [f32],
    pub head: &'a Head<'a>,
    pub sizes: Sizes,
    pub d: usize,
    pub groups: Range<usize>,
    pub recent: Range<usize>,
}

/// Vectors of a row that are computed at once.
const WIDE: usize = 4;

/// Sums for `M` queries and some columns.
struct Sums<S: Simd, const M: usize> {
    totals: [S::F32; M],
    sums: [[S::F32; WIDE]; M],
}

impl<S: Simd, const M: usize> Sums<S, M> {
    /// Adds a token's values by their scores, which are `stride` apart.
    ///
    /// # Safety
    /// There are `M` of them.
    #[inline(always)]
    unsafe fn add(&mut self, simd: S, scores: *const f32, stride: usize, value: [S::F32; WIDE]) {
        for m in 0..M {
            // SAFETY: the caller's promise.
            let score = simd.splat(unsafe { *scores.add(m * stride) });
            self.totals[m] = simd.add(self.totals[m], score);
            for (sum, value) in self.sums[m].iter_mut().zip(value) {
                *sum = simd.mul_add(score, value, *sum);
            }
        }
    }

    /// Adds the values of some tokens of a group, whose codes are rows of bytes from `codes` on, `d` apart; `left` are there.
    ///
    /// # Safety
    /// As [`add`](Self::add) and [`load`], of each of the tokens.
    #[inline(always)]
    #[expect(
        clippy::too_many_arguments,
        reason = "a loop of its own, since a closure has not the instructions enabled"
    )]
    unsafe fn add_codes<W: Stored<S, f32>>(
        &mut self,
        simd: S,
        scores: *const f32,
        stride: usize,
        codes: *const W,
        [d, left]: [usize; 2],
        tokens: Range<usize>,
        scales: [&[[f32; GROUP]; 2]; WIDE],
    ) {
        for (row, token) in tokens.enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let mut value = load(simd, codes.add(row * d), left);
                for (value, [low, step]) in value.iter_mut().zip(scales) {
                    *value = simd.mul_add(*value, simd.splat(step[token]), simd.splat(low[token]));
                }
                self.add(simd, scores.add(token), stride, value);
            }
        }
    }
}

/// Loads the numbers of a row from `from` on: [`WIDE`] vectors, or one of which `left` numbers are there.
///
/// # Safety
/// They can be read.
#[inline(always)]
unsafe fn load<S: Simd, W: Stored<S, f32>>(simd: S, from: *const W, left: usize) -> [S::F32; WIDE] {
    let mut value = [simd.zero(); WIDE];
    // SAFETY: the caller's promise.
    unsafe {
        if left >= WIDE * S::LANES {
            for (j, value) in value.iter_mut().enumerate() {
                *value = W::load(simd, from.add(j * S::LANES));
            }
        } else if left >= S::LANES {
            value[0] = W::load(simd, from);
        } else {
            value[0] = W::load_part(simd, from, left);
        }
    }
    value
}

impl Mean<'_> {
    #[inline(always)]
    pub fn compute<S: Simd, P: Packing<S>, const M: usize>(&self, simd: S, out: &mut Block<'_, f32>) {
        let Self { scores, head, sizes, d, ref groups, ref recent } = *self;
        let stride = scores.len() / M;
        assert!(groups.end * GROUP <= stride && recent.end <= stride && out.rows() == M && out.width() == d, "scores");
        assert!(head.codes[1].len() >= groups.end * sizes.codes && head.recent[1].len() == sizes.recent * d, "values");
        let mut column = 0;
        while column < d {
            let left = d - column;
            let wide = left >= WIDE * S::LANES;
            let count = if wide { WIDE * S::LANES } else { left.min(S::LANES) };
            let mut sums = Sums::<S, M> { totals: [simd.zero(); M], sums: [[simd.zero(); WIDE]; M] };
            for group in groups.clone() {
                let scales = self.scales_of::<S, P>(simd, group, column, count);
                let scales: [_; WIDE] = std::array::from_fn(|j| &scales[(column % GROUP + j * S::LANES) / GROUP]);
                let bytes = &head.codes[1][group * sizes.codes..(group + 1) * sizes.codes];
                // SAFETY: the group has rows of `d` bytes, of which `count` are read from `column` on, once in one way and, if
                // two codes share a byte, then in the other; and each row of scores has one for each of its tokens.
                unsafe {
                    let scores = scores.as_ptr().add(group * GROUP);
                    let first = P::First::of(bytes).as_ptr().add(column);
                    sums.add_codes(simd, scores, stride, first, [d, left], 0..P::ROWS, scales);
                    if const { P::ROWS < GROUP } {
                        let second = P::Second::of(bytes).as_ptr().add(column);
                        sums.add_codes(simd, scores, stride, second, [d, left], P::ROWS..GROUP, scales);
                    }
                }
            }
            for (tokens, rows) in recent_parts(recent.clone(), sizes.recent) {
                for (token, row) in tokens.zip(rows) {
                    // SAFETY: the ring has a row of `d` numbers for each, and each row of scores one for each token.
                    unsafe {
                        let value = load(simd, head.recent[1].as_ptr().add(row * d + column), left);
                        sums.add(simd, scores.as_ptr().add(token), stride, value);
                    }
                }
            }
            let vectors = if wide { WIDE } else { 1 };
            for m in 0..M {
                let total = simd.first(sums.totals[m]);
                let factor = simd.splat(if total == 0.0 { 0.0 } else { 1.0 / total });
                let out = &mut out.row(m)[column..column + count];
                for (sum, out) in sums.sums[m].iter().take(vectors).zip(out.chunks_mut(S::LANES)) {
                    simd.store_in(simd.mul(*sum, factor), out);
                }
            }
            column += count;
        }
    }

    /// What codes of 0 mean, and the steps, of each token of a group, for the parts of 32 channels that some columns
    /// are in: three at most.
    #[inline(always)]
    fn scales_of<S: Simd, P: Packing<S>>(
        &self,
        simd: S,
        group: usize,
        column: usize,
        count: usize,
    ) -> [[[f32; GROUP]; 2]; 3] {
        let (mut scales, len) = ([[[0.0; GROUP]; 2]; 3], self.sizes.value_scales);
        let all = &self.head.value_scales[group * len..(group + 1) * len];
        let parts = column / GROUP..(column + count).div_ceil(GROUP);
        for ([low, step], from) in
            scales.iter_mut().zip(all[parts.start * 2 * GROUP..parts.end * 2 * GROUP].chunks_exact(2 * GROUP))
        {
            widen(simd, &from[..GROUP], low);
            widen(simd, &from[GROUP..], step);
            low.iter_mut().zip(&*step).for_each(|(low, step)| *low += P::OFFSET * step);
        }
        scales
    }
}
