//! Means of values by their scores.

use std::ops::Range;

use crate::matmul::Stored;
use crate::simd::Simd;
use crate::strided::Block;

/// Values of a head that can be added up, some columns at a time.
pub trait Values<S: Simd> {
    /// Adds `columns` of all values: `WIDE` vectors, or a part of one.
    ///
    /// # Safety
    /// Each of the `M` rows of scores, `stride` apart from `scores` on, has one for each value.
    unsafe fn add<const M: usize, const WIDE: usize>(
        &self,
        simd: S,
        scores: *const f32,
        stride: usize,
        columns: Range<usize>,
        sums: &mut Sums<S, M, WIDE>,
    );
}

/// Sums for `M` queries and `WIDE` vectors of columns.
pub struct Sums<S: Simd, const M: usize, const WIDE: usize>([[S::F32; WIDE]; M]);

impl<S: Simd, const M: usize, const WIDE: usize> Sums<S, M, WIDE> {
    /// Adds a token's values by their scores, which are `stride` apart.
    ///
    /// # Safety
    /// There are `M` of them.
    #[inline(always)]
    pub unsafe fn add(&mut self, simd: S, scores: *const f32, stride: usize, value: [S::F32; WIDE]) {
        for m in 0..M {
            // SAFETY: the caller's promise.
            let score = simd.splat(unsafe { *scores.add(m * stride) });
            for (sum, value) in self.0[m].iter_mut().zip(value) {
                *sum = simd.mul_add(score, value, *sum);
            }
        }
    }
}

/// Loads `count` numbers of a row from `from` on: `WIDE` vectors, or a part of one.
///
/// # Safety
/// They can be read.
#[inline(always)]
pub unsafe fn load<S: Simd, W: Stored<S, f32>, const WIDE: usize>(
    simd: S,
    from: *const W,
    count: usize,
) -> [S::F32; WIDE] {
    let mut value = [simd.zero(); WIDE];
    // SAFETY: the caller's promise.
    unsafe {
        if const { WIDE == 1 } && count < S::LANES {
            value[0] = W::load_part(simd, from, count);
            return value;
        }
        for (j, value) in value.iter_mut().enumerate() {
            *value = W::load(simd, from.add(j * S::LANES));
        }
    }
    value
}

/// `out[m, d] = sum_s scores[m, s] values[s, d] / totals[m]`, or 0 where a total is 0; a row of scores for each row of
/// `out`.
///
/// A sum goes through the keys in order, one by one: keys that are padding add exactly 0, and so the result does not
/// depend on where padding is. (Unless a value is infinite or NaN: that is seen by all queries that are computed
/// together with one that sees it.)
///
/// # Safety
/// Rows of scores, `stride` apart, are as long as `values` says.
#[inline(always)]
pub unsafe fn weighted_mean<S: Simd, V: Values<S>>(
    simd: S,
    values: &V,
    scores: &[f32],
    stride: usize,
    totals: &[f32],
    out: &mut Block<'_, f32>,
) {
    assert!(totals.len() == out.rows() && scores.len() >= totals.len() * stride, "scores");
    let mut m = 0;
    while m < totals.len() {
        let part = Part { simd, values, scores: &scores[m * stride..], stride, totals: &totals[m..], first: m };
        // As many sums as there are registers for, with their factors; the constants decide while compiling.
        // SAFETY: the caller's promise, and so many rows are left.
        m += unsafe {
            match totals.len() - m {
                8.. if const { S::LANES == 16 } => part.rows::<8, 2>(out),
                4.. if const { S::LANES == 8 } => part.rows::<4, 2>(out),
                4.. => part.rows::<4, 4>(out),
                3 if const { S::LANES == 8 } => part.rows::<3, 2>(out),
                3 => part.rows::<3, 4>(out),
                2 => part.rows::<2, 4>(out),
                _ => part.rows::<1, 4>(out),
            }
        };
    }
}

/// Rows of scores and their totals, from row `first` on.
struct Part<'a, S, V> {
    simd: S,
    values: &'a V,
    scores: &'a [f32],
    stride: usize,
    totals: &'a [f32],
    first: usize,
}

impl<S: Simd, V: Values<S>> Part<'_, S, V> {
    /// The first `M` rows, by `WIDE` vectors of columns and what is left by one; returns `M`.
    ///
    /// # Safety
    /// As [`weighted_mean`].
    #[inline(always)]
    unsafe fn rows<const M: usize, const WIDE: usize>(&self, out: &mut Block<'_, f32>) -> usize {
        let (mut column, d) = (0, out.width());
        // SAFETY: the caller's promise.
        unsafe {
            while column + WIDE * S::LANES <= d {
                self.columns::<M, WIDE>(column..column + WIDE * S::LANES, out);
                column += WIDE * S::LANES;
            }
            while column < d {
                let end = d.min(column + S::LANES);
                self.columns::<M, 1>(column..end, out);
                column = end;
            }
        }
        M
    }

    /// Some columns of the first `M` rows.
    ///
    /// # Safety
    /// As [`weighted_mean`].
    #[inline(always)]
    unsafe fn columns<const M: usize, const WIDE: usize>(&self, columns: Range<usize>, out: &mut Block<'_, f32>) {
        let Self { simd, values, scores, stride, totals, first } = *self;
        let mut sums = Sums::<S, M, WIDE>([[simd.zero(); WIDE]; M]);
        // SAFETY: the caller's promise.
        unsafe { values.add(simd, scores.as_ptr(), stride, columns.clone(), &mut sums) };
        for (m, (sums, &total)) in sums.0.iter().zip(totals).enumerate() {
            let factor = simd.splat(if total == 0.0 { 0.0 } else { 1.0 / total });
            let out = &mut out.row(first + m)[columns.clone()];
            for (sum, out) in sums.iter().zip(out.chunks_mut(S::LANES)) {
                simd.store_in(simd.mul(*sum, factor), out);
            }
        }
    }
}

/// Values as rows of `d` numbers, of which some are seen.
pub struct Rows<'a, W> {
    pub values: &'a [W],
    pub d: usize,
    pub seen: Range<usize>,
}

impl<S: Simd, W: Stored<S, f32>> Values<S> for Rows<'_, W> {
    #[inline(always)]
    unsafe fn add<const M: usize, const WIDE: usize>(
        &self,
        simd: S,
        scores: *const f32,
        stride: usize,
        columns: Range<usize>,
        sums: &mut Sums<S, M, WIDE>,
    ) {
        let Self { values, d, ref seen } = *self;
        assert!(seen.end * d <= values.len() && columns.end <= d, "values");
        for s in seen.clone() {
            // SAFETY: key `s` has a row of `d` values, as was checked; the rest is the caller's promise.
            unsafe {
                let value = load::<S, W, WIDE>(simd, values.as_ptr().add(s * d + columns.start), columns.len());
                sums.add(simd, scores.add(s), stride, value);
            }
        }
    }
}
