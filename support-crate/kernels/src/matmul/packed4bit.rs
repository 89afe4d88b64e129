//! Products with weights of 4 bits, which are decoded on the fly.
//!
//! Each number is `code[index] * absmax + minimum` in float32, rounded once, whatever the shape of the product; without
//! minima that is how bitsandbytes dequantizes it. For products in bfloat16 it is rounded to that, as are the inputs.
//! Sums are float32.

use std::ops::Range;

use half::bf16;

use super::decode::{Decoded, Widened, number_of};
#[cfg(target_arch = "x86_64")]
use super::decode_x86::InWords;
use super::decoded::{self, DecodeRow, K_BLOCK};
use super::gemm::{add_sums, blocks};
use super::ordered_inputs::{Order, ordered};
use super::{Product, Weights};
#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::isa::Isa;
use crate::scratch::Reused;
#[cfg(target_arch = "x86_64")]
use crate::simd::Avx512Bf16;
use crate::simd::{Dispatch, Kernel, Simd};
use crate::sizes;
use crate::strided::Block;

/// A matrix (n, k) in blocks of 4-bit numbers that run over its rows: NF4 and FP4 by a code, and affine int4, whose code
/// is 0 to 15, with a minimum for each block (of GPTQ, AWQ and HQQ: `-scale * zero`).
#[derive(Debug, Clone, Copy)]
pub struct Packed4Bit<'a> {
    /// Two numbers each: the first in the upper half.
    pub packed: &'a [u8],
    /// What a code of 1 stands for in each block.
    pub absmax: &'a [f32],
    /// What a code of 0 stands for in each block; `None` where that is 0.
    pub minimum: Option<&'a [f32]>,
    /// What each of the 16 indices stands for, as a part of `absmax`.
    pub code: &'a [f32; 16],
    /// Numbers in a block: a multiple of 32.
    pub blocksize: usize,
    /// Which input each column of weights is multiplied with, where they are in another order (GPTQ's `desc_act`): (k).
    pub columns: Option<&'a [u32]>,
    /// What numbers are multiplied in.
    pub compute: Compute,
}

/// What decoded numbers are multiplied in; sums are float32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute {
    /// As they are.
    Float32,
    /// Rounded to bfloat16, as are the inputs.
    BFloat16,
}

/// Up to this many rows of inputs, a tile keeps the inputs in registers while weights go by; beyond that, the weights.
const INPUTS_KEPT: usize = 4;

/// Distance in bytes from the end of a tile to what is prefetched while the tile is read: it comes from main memory.
pub(super) const AHEAD: usize = 4096;

impl Packed4Bit<'_> {
    /// Panics unless this is a matrix (n, k).
    fn check(&self, n: usize, k: usize) {
        let Self { packed, absmax, minimum, blocksize, columns, .. } = *self;
        assert!(blocksize > 0 && blocksize.is_multiple_of(32), "blocks cannot have {blocksize} numbers");
        let numbers = sizes::product("weights", &[n, k]);
        let (bytes, scales) = (numbers.div_ceil(2), numbers.div_ceil(blocksize));
        assert!(
            (packed.len(), absmax.len()) == (bytes, scales),
            "weights: {} bytes and {} scales, not {bytes} and {scales}, for {n} x {k} in blocks of {blocksize}",
            packed.len(),
            absmax.len()
        );
        if let Some(minimum) = minimum {
            sizes::check("minima", minimum.len(), &[scales]);
        }
        if let Some(columns) = columns {
            sizes::check("columns", columns.len(), &[k]);
            let beyond = columns.iter().find(|&&column| column as usize >= k);
            assert!(beyond.is_none(), "columns: {beyond:?} of {k}");
        }
    }
}

impl Weights for Packed4Bit<'_> {
    fn multiply(&self, product: Product<'_>) {
        self.check(product.n, product.k);
        let mut product = if self.compute == Compute::Float32 { product.without_tiles() } else { product };
        let isa = product.isa;
        product.parts().for_each(|product| match (self.compute, isa) {
            (Compute::Float32, _) => self.multiply_in::<f32, _>(isa, product),
            #[cfg(target_arch = "x86_64")]
            (Compute::BFloat16, Isa::Avx512Bf16(simd)) if InWords::fits(product.k, self.blocksize) => {
                self.multiply_in::<InWords, _>(simd, product);
            }
            #[cfg(target_arch = "x86_64")]
            (Compute::BFloat16, Isa::Avx512Bf16(simd)) => self.multiply_in::<bf16, _>(simd, product),
            #[cfg(target_arch = "x86_64")]
            (Compute::BFloat16, Isa::Amx(amx)) => {
                let x = &*ordered::<bf16, _>(amx.vectors(), &product, self.columns);
                let factors = Factors::of(*self, x, &product);
                amx::multiply(amx, x, &factors, product);
            }
            #[cfg(target_arch = "aarch64")]
            (Compute::BFloat16, Isa::NeonBf16(simd)) => self.multiply_in::<bf16, _>(simd, product),
            (Compute::BFloat16, _) => self.multiply_in::<Widened, _>(isa, product),
        });
    }
}

impl Packed4Bit<'_> {
    /// Multiplies as numbers `T`, with kernels that run on `vectors`.
    fn multiply_in<T: Reused + Send + Sync, V: Runs<T>>(&self, vectors: V, product: Product<'_>) {
        let x = ordered::<T, V>(vectors, &product, self.columns);
        let factors = &Factors::of(*self, &x, &product);
        product.divide(factors.m * factors.k, &|rows, out| vectors.dispatch(Part { factors, rows, out }));
    }
}

/// What kernels of the numbers `T` run on.
trait Runs<T>: Copy + Sync + for<'a> Dispatch<Order<'a, T>> + for<'a> Dispatch<Part<'a, T>> {}
impl<T, V: Copy + Sync + for<'a> Dispatch<Order<'a, T>> + for<'a> Dispatch<Part<'a, T>>> Runs<T> for V {}

struct Factors<'a, T> {
    weights: Packed4Bit<'a>,
    /// The logarithm of the block size, where that is a power of two, as it almost always is: a division takes as long as
    /// everything else that a block needs.
    shift: Option<u32>,
    /// (m, k), each row as [`Order`] leaves it.
    x: &'a [T],
    m: usize,
    k: usize,
}

/// A thread's rows of weights.
struct Part<'a, T> {
    factors: &'a Factors<'a, T>,
    rows: Range<usize>,
    out: Block<'a, f32>,
}

impl<S: Simd, T: Decoded<S>> Kernel<S> for Part<'_, T> {
    #[inline(always)]
    fn run(self, simd: S) {
        let Self { factors, rows, mut out } = self;
        let most = if const { S::TILE.0 == 4 } { 8 } else { INPUTS_KEPT };
        let fused = factors.m <= most && factors.k.is_multiple_of(T::GROUP);
        let together = if factors.m <= INPUTS_KEPT { 4 } else { 3 };
        let rest = if fused { rows.end - rows.len() % together } else { rows.start };
        for n in (rows.start..rest).step_by(together) {
            for along in blocks(0..factors.k, K_BLOCK) {
                let (column, out) = (n - rows.start, &mut out);
                match factors.m {
                    1 => factors.fused::<S, 1, 4>(simd, n, along, column, out),
                    2 => factors.fused::<S, 2, 4>(simd, n, along, column, out),
                    3 => factors.fused::<S, 3, 4>(simd, n, along, column, out),
                    4 => factors.fused::<S, 4, 4>(simd, n, along, column, out),
                    // Where there are enough registers for this many sums.
                    5 if const { S::TILE.0 == 4 } => factors.fused::<S, 5, 3>(simd, n, along, column, out),
                    6 if const { S::TILE.0 == 4 } => factors.fused::<S, 6, 3>(simd, n, along, column, out),
                    7 if const { S::TILE.0 == 4 } => factors.fused::<S, 7, 3>(simd, n, along, column, out),
                    _ if const { S::TILE.0 == 4 } => factors.fused::<S, 8, 3>(simd, n, along, column, out),
                    _ => unreachable!("more inputs than `most`"),
                }
            }
        }
        if rest < rows.end {
            let columns = rest - rows.start..rows.len();
            decoded::multiply(
                simd,
                (factors.x, factors.k),
                (factors.m, factors.k),
                rest..rows.end,
                &mut out.into_columns(columns),
                factors,
            );
        }
    }
}

impl<'a, T: Copy> Factors<'a, T> {
    fn of(weights: Packed4Bit<'a>, x: &'a [T], product: &Product<'_>) -> Self {
        let blocksize = weights.blocksize;
        let shift = blocksize.is_power_of_two().then(|| blocksize.trailing_zeros());
        Self { weights, shift, x, m: product.m(), k: product.k }
    }

    /// Adds the products of rows `n..n + N` with all inputs, along whole groups, to the columns from `column` on.
    #[inline(always)]
    fn fused<S: Simd, const M: usize, const N: usize>(
        &self,
        simd: S,
        n: usize,
        along: Range<usize>,
        column: usize,
        out: &mut Block<'_, f32>,
    ) where
        T: Decoded<S>,
    {
        assert!(self.weights.packed.len() >= (n + N) * self.k / 2 && self.x.len() >= M * self.k && along.end <= self.k);
        let mut sums = [[simd.zero(); N]; M];
        // Each compiled apart: a loop is a twentieth slower where a table might serve several groups, and a table takes
        // as many steps more if it might be of two blocks. Where inputs are many, neither makes a difference.
        let (block, shared) = (self.whole_block::<S>().unwrap_or(0), const { T::GROUP * T::SHARING });
        if const { M == 1 && T::TABLES_FIRST } && block > shared {
            self.add_spans::<S, M, N, true>(simd, n, along, block, &mut sums);
        } else if const { M <= 2 } && block >= shared {
            self.add_spans::<S, M, N, true>(simd, n, along, shared, &mut sums);
        } else {
            self.add_spans::<S, M, N, false>(simd, n, along, T::GROUP, &mut sums);
        }
        add_sums::<S, T, M, N>(simd, &sums, 0, column, out);
    }

    /// The block size, where a block is whole groups, and rows and what is multiplied of them at once are whole blocks.
    #[inline(always)]
    fn whole_block<S: Simd>(&self) -> Option<usize>
    where
        T: Decoded<S>,
    {
        let blocksize = self.weights.blocksize;
        let fits = |numbers: usize| numbers.is_multiple_of(blocksize);
        (fits(K_BLOCK) && fits(self.k) && blocksize.is_multiple_of(T::GROUP)).then_some(blocksize)
    }

    /// The same, to `sums`. A table serves `span` numbers: whole groups, and part of one block if `WHOLE`.
    #[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
    #[inline(always)]
    fn add_spans<S: Simd, const M: usize, const N: usize, const WHOLE: bool>(
        &self,
        simd: S,
        n: usize,
        along: Range<usize>,
        span: usize,
        sums: &mut [[S::F32; N]; M],
    ) where
        T: Decoded<S>,
    {
        let Self { weights, x, k, .. } = *self;
        let packed = weights.packed.as_ptr();
        // As much as this tile will read, in the order of memory.
        let next = packed.wrapping_add((n + N) * k / 2 + AHEAD);
        for start in along.step_by(span) {
            if const { M > INPUTS_KEPT || (M == 1 && T::TABLES_FIRST) } {
                let mut tables = [self.table::<S, WHOLE>(simd, n * k + start); N];
                for j in 1..N {
                    tables[j] = self.table::<S, WHOLE>(simd, (n + j) * k + start);
                }
                for at in (0..span / T::GROUP).map(|group| start + group * T::GROUP) {
                    for j in 0..N {
                        simd.prefetch(next.wrapping_add((at * N + j * T::GROUP) / 2));
                    }
                    if const { M == 1 } {
                        self.add_products(simd, n, at, &tables, &mut sums[0]);
                        continue;
                    }
                    for pair in (0..T::GROUP).step_by(T::PAIR) {
                        let mut numbers = [(T::none(simd), T::none(simd)); N];
                        for j in 0..N {
                            // SAFETY: as `fused` has checked, a whole group of this row begins at `at`.
                            numbers[j] =
                                unsafe { T::decode(simd, tables[j], packed.add(((n + j) * k + at) / 2), pair) };
                        }
                        for i in 0..M {
                            // SAFETY: as `fused` has checked, a whole group of this input begins at `at`.
                            let inputs = unsafe { load_pair::<S, T>(simd, x.as_ptr().add(i * k + at + pair)) };
                            for j in 0..N {
                                let sum = T::dot(simd, numbers[j].0, inputs.0, sums[i][j]);
                                sums[i][j] = T::dot(simd, numbers[j].1, inputs.1, sum);
                            }
                        }
                    }
                }
                continue;
            }
            for j in 0..N {
                let table = self.table::<S, WHOLE>(simd, (n + j) * k + start);
                for at in (0..span / T::GROUP).map(|group| start + group * T::GROUP) {
                    simd.prefetch(next.wrapping_add((at * N + j * T::GROUP) / 2));
                    for pair in (0..T::GROUP).step_by(T::PAIR) {
                        // SAFETY: whole groups of these rows of weights and inputs begin at `at`, as `fused` has checked,
                        // and both vectors of the pair lie within them.
                        unsafe {
                            let numbers = T::decode(simd, table, packed.add(((n + j) * k + at) / 2), pair);
                            for i in 0..M {
                                let inputs = load_pair::<S, T>(simd, x.as_ptr().add(i * k + at + pair));
                                let sum = T::dot(simd, numbers.0, inputs.0, sums[i][j]);
                                sums[i][j] = T::dot(simd, numbers.1, inputs.1, sum);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Adds the products of one input with the group at `at` of `N` rows from `n` on, by these tables.
    #[inline(always)]
    fn add_products<S: Simd, const N: usize>(
        &self,
        simd: S,
        n: usize,
        at: usize,
        tables: &[T::Table; N],
        sums: &mut [S::F32; N],
    ) where
        T: Decoded<S>,
    {
        let Self { weights, x, k, .. } = *self;
        debug_assert!(weights.packed.len() >= (n + N) * k / 2 && x.len() >= k && at + T::GROUP <= k);
        let part = const { if T::GROUP == T::PAIR { T::PAIR } else { T::GROUP / 2 } };
        for half in (0..T::GROUP).step_by(part) {
            for j in 0..N {
                for pair in (half..half + part).step_by(T::PAIR) {
                    // SAFETY: whole groups of these rows of weights and inputs begin at `at`, as `fused` has checked,
                    // and both vectors of the pair lie within them.
                    unsafe {
                        let group = weights.packed.as_ptr().add(((n + j) * k + at) / 2);
                        let numbers = T::decode(simd, tables[j], group, pair);
                        let inputs = load_pair::<S, T>(simd, x.as_ptr().add(at + pair));
                        let sum = T::dot(simd, numbers.0, inputs.0, sums[j]);
                        sums[j] = T::dot(simd, numbers.1, inputs.1, sum);
                    }
                }
            }
        }
    }

    /// What the indices stand for in the group from this number on.
    #[inline(always)]
    fn table<S: Simd, const WHOLE: bool>(&self, simd: S, number: usize) -> T::Table
    where
        T: Decoded<S>,
    {
        let Packed4Bit { absmax, minimum, code, .. } = self.weights;
        // Where blocks divide `K_BLOCK`, they are a power of two; none is smaller than 32.
        let first = if WHOLE { number >> self.shift.unwrap_or_default() } else { self.block(number) };
        let second = if const { T::GROUP > 32 && !WHOLE } { self.block(number + T::GROUP / 2) } else { first };
        debug_assert!(second < absmax.len());
        // SAFETY: a whole group begins here, and every block has a scale and, if there are minima, a minimum, as
        // `Packed4Bit::check` has verified.
        let of_halves = |each: &[f32]| unsafe { [*each.get_unchecked(first), *each.get_unchecked(second)] };
        T::table(simd, code, of_halves(absmax), minimum.map_or([0.0; 2], of_halves))
    }

    /// The block that a number belongs to.
    #[inline(always)]
    fn block(&self, number: usize) -> usize {
        match self.shift {
            Some(shift) => number >> shift,
            None => number / self.weights.blocksize,
        }
    }
}

impl<S: Simd, T: Decoded<S>> DecodeRow<S, T> for Factors<'_, T> {
    /// In the order of the inputs.
    #[inline(always)]
    fn decode_row(&self, simd: S, row: usize, along: Range<usize>, out: &mut [T]) {
        let Packed4Bit { packed, absmax, minimum, code, .. } = self.weights;
        let (first, out) = (row * self.k + along.start, &mut out[..along.len()]);
        if self.k.is_multiple_of(T::GROUP) {
            let packed = &packed[first / 2..(first + out.len()) / 2];
            for (at, (packed, out)) in packed.chunks_exact(T::GROUP / 2).zip(out.chunks_exact_mut(T::GROUP)).enumerate()
            {
                let table = self.table::<S, false>(simd, first + at * T::GROUP);
                for (pair, out) in (0..T::GROUP).step_by(T::PAIR).zip(out.chunks_exact_mut(T::PAIR)) {
                    // SAFETY: there are the bytes of a group, and there is room for both vectors.
                    unsafe {
                        let (firsts, seconds) = T::decode(simd, table, packed.as_ptr(), pair);
                        T::store(firsts, out.as_mut_ptr());
                        T::store(seconds, out.as_mut_ptr().add(T::STEP));
                    }
                }
            }
            return;
        }
        for (number, out) in (first..).zip(out) {
            let byte = packed[number / 2];
            let index = if number.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
            let block = self.block(number);
            let minimum = minimum.map_or(0.0, |minimum| minimum[block]);
            *out = T::nearest(number_of(code[usize::from(index)], absmax[block], minimum));
        }
    }
}

/// Many inputs: 32 rows at a time are decoded.
#[cfg(target_arch = "x86_64")]
impl amx::TileProduct for Factors<'_, bf16> {
    type Number = bf16;

    #[inline(always)]
    fn row(&self, simd: Avx512Bf16, row: usize, columns: Range<usize>, out: &mut [bf16]) {
        self.decode_row(simd, row, columns, out);
    }
}

/// A pair of vectors of inputs.
///
/// # Safety
/// `PAIR` numbers can be read.
#[inline(always)]
unsafe fn load_pair<S: Simd, T: Decoded<S>>(simd: S, from: *const T) -> (T::Vector, T::Vector) {
    // SAFETY: each vector is half of the pair, which the caller vouches for.
    unsafe { (T::load(simd, from), T::load(simd, from.add(T::STEP))) }
}

#[cfg(test)]
#[path = "packed4bit_tests.rs"]
mod tests;
