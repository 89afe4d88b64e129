//! Values in codes and, the last ones, in float16, added up by their scores.

use std::marker::PhantomData;
use std::ops::Range;

use super::attention::recent_parts;
use super::codes::{Code, Packing};
use super::{GROUP, Head, Sizes};
use crate::attention::mean::{Sums, Values, load};
use crate::matmul::Stored;
use crate::simd::{Simd, widen};

/// Values of a head: groups of codes, then recent tokens.
pub struct Coded<'a, P> {
    pub head: &'a Head<'a>,
    pub sizes: Sizes,
    pub d: usize,
    pub groups: Range<usize>,
    pub recent: Range<usize>,
    /// How codes are packed.
    pub packing: PhantomData<P>,
}

/// Parts of 32 channels that some columns are in, at most.
const PARTS: usize = 3;

/// Adds the values of some tokens of a group, whose codes are rows of bytes from `codes` on, `d` apart; `count` numbers of
/// each.
///
/// # Safety
/// As [`Sums::add`] and [`load`], of each of the tokens.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "a loop of its own, since a closure has not the instructions enabled")]
unsafe fn add_codes<S: Simd, W: Stored<S, f32>, const M: usize, const WIDE: usize>(
    sums: &mut Sums<S, M, WIDE>,
    simd: S,
    scores: *const f32,
    stride: usize,
    codes: *const W,
    [d, count]: [usize; 2],
    tokens: Range<usize>,
    scales: [&[[f32; GROUP]; 2]; WIDE],
) {
    for (row, token) in tokens.enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            let mut value = load::<S, W, WIDE>(simd, codes.add(row * d), count);
            for (value, [low, step]) in value.iter_mut().zip(scales) {
                *value = simd.mul_add(*value, simd.splat(step[token]), simd.splat(low[token]));
            }
            sums.add(simd, scores.add(token), stride, value);
        }
    }
}

impl<S: Simd, P: Packing<S>> Values<S> for Coded<'_, P> {
    #[inline(always)]
    unsafe fn add<const M: usize, const WIDE: usize>(
        &self,
        simd: S,
        scores: *const f32,
        stride: usize,
        columns: Range<usize>,
        sums: &mut Sums<S, M, WIDE>,
    ) {
        let Self { head, sizes, d, ref groups, ref recent, .. } = *self;
        assert!(head.codes[1].len() >= groups.end * sizes.codes && head.recent[1].len() == sizes.recent * d, "values");
        assert!(columns.end <= d, "columns");
        let (column, count) = (columns.start, columns.len());
        for group in groups.clone() {
            let scales = self.scales_of::<S>(simd, group, column, count);
            let scales: [_; WIDE] = std::array::from_fn(|j| &scales[(column % GROUP + j * S::LANES) / GROUP]);
            let bytes = &head.codes[1][group * sizes.codes..(group + 1) * sizes.codes];
            // SAFETY: the group has rows of `d` bytes, of which `count` are read from `column` on, once in one way and, if
            // two codes share a byte, then in the other; and each row of scores has one for each of its tokens.
            unsafe {
                let scores = scores.add(group * GROUP);
                let first = P::First::of(bytes).as_ptr().add(column);
                add_codes(sums, simd, scores, stride, first, [d, count], 0..P::ROWS, scales);
                if const { P::ROWS < GROUP } {
                    let second = P::Second::of(bytes).as_ptr().add(column);
                    add_codes(sums, simd, scores, stride, second, [d, count], P::ROWS..GROUP, scales);
                }
            }
        }
        for (tokens, rows) in recent_parts(recent.clone(), sizes.recent) {
            for (token, row) in tokens.zip(rows) {
                // SAFETY: the ring has a row of `d` numbers for each, and each row of scores one for each token.
                unsafe {
                    let value = load(simd, head.recent[1].as_ptr().add(row * d + column), count);
                    sums.add(simd, scores.add(token), stride, value);
                }
            }
        }
    }
}

impl<P> Coded<'_, P> {
    /// What codes of 0 mean, and the steps, of each token of a group, for the parts of 32 channels that some columns
    /// are in: three at most.
    #[inline(always)]
    fn scales_of<S: Simd>(&self, simd: S, group: usize, column: usize, count: usize) -> [[[f32; GROUP]; 2]; PARTS]
    where
        P: Packing<S>,
    {
        let (mut scales, len) = ([[[0.0; GROUP]; 2]; PARTS], self.sizes.value_scales);
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
