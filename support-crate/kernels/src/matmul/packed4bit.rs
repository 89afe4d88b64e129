//! Products with weights of 4 bits, which are decoded on the way.
//!
//! Each number is `code[index] * absmax` in float32, as bitsandbytes dequantizes it, whatever the shape of
//! the product; for products in bfloat16 it is rounded to that, as are the inputs. Sums are float32.

use std::ops::Range;

use half::bf16;

use super::decode::{Decoded, Target, Widened};
#[cfg(target_arch = "x86_64")]
use super::decode_x86::InWords;
use super::decoded::{self, DecodeRow, K_BLOCK};
use super::gemm::{add_sums, blocks};
use super::{Epilogue, divide};
#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::isa::Isa;
use crate::scratch::{Kept, Scratch};
#[cfg(target_arch = "x86_64")]
use crate::simd::Avx512Bf16;
use crate::simd::{Kernel, Simd};
use crate::sizes;
use crate::strided::Block;
use crate::threads::ThreadScope;

/// A matrix (n, k) in blocks of 4-bit numbers that run over its rows.
#[derive(Debug, Clone, Copy)]
pub struct Packed4Bit<'a> {
    /// Two numbers each: the first in the upper half.
    pub packed: &'a [u8],
    /// What the largest number of each block stands for.
    pub absmax: &'a [f32],
    /// What each of the 16 indices stands for, as a part of `absmax`.
    pub code: &'a [f32; 16],
    /// Numbers in a block: a power of two, at least 32.
    pub blocksize: usize,
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

/// Up to this many rows of inputs, a tile keeps these in registers while weights go by, and for more the weights.
const INPUTS_KEPT: usize = 4;

/// How many bytes after the end of a tile those begin that are asked for while it is read: they come from main memory.
const AHEAD: usize = 4096;

impl Packed4Bit<'_> {
    /// Refuses what is not a matrix (n, k).
    pub(super) fn check(&self, n: usize, k: usize) {
        let Self { packed, absmax, blocksize, .. } = *self;
        assert!(blocksize.is_power_of_two() && blocksize >= 32, "a block of {blocksize} numbers");
        let numbers = sizes::product("weights", &[n, k]);
        let (bytes, scales) = (numbers.div_ceil(2), numbers.div_ceil(blocksize));
        assert!(
            (packed.len(), absmax.len()) == (bytes, scales),
            "weights: {} bytes and {} scales, not {bytes} and {scales}, for {n} x {k} in blocks of {blocksize}",
            packed.len(),
            absmax.len()
        );
    }
}

/// `out[m, n] = sum_k x[m, k] * weight[n, k]`, and what the epilogue says.
pub fn matmul(
    isa: Isa,
    scope: &ThreadScope,
    x: &[f32],
    weights: Packed4Bit<'_>,
    k: usize,
    epilogue: Epilogue<'_>,
    out: &mut [f32],
) {
    match (weights.compute, isa) {
        (Compute::Float32, _) => {
            multiply::<f32>(isa, scope, x, (weights, k), epilogue, out, &|order| isa.dispatch(order), &|part| {
                isa.dispatch(part)
            });
        }
        #[cfg(target_arch = "x86_64")]
        (Compute::BFloat16, Isa::Avx512Bf16(simd)) if InWords::fits(k, weights.blocksize) => {
            multiply::<InWords>(isa, scope, x, (weights, k), epilogue, out, &|order| simd.vectorize(order), &|part| {
                simd.vectorize(part)
            });
        }
        #[cfg(target_arch = "x86_64")]
        (Compute::BFloat16, Isa::Avx512Bf16(simd)) => {
            multiply::<bf16>(isa, scope, x, (weights, k), epilogue, out, &|order| simd.vectorize(order), &|part| {
                simd.vectorize(part)
            });
        }
        #[cfg(target_arch = "x86_64")]
        (Compute::BFloat16, Isa::Amx(amx)) => {
            let x = &*ordered::<bf16>(scope, x, k, &|order| amx.vectors().vectorize(order));
            let product = Product { weights, x, m: x.len() / k, k };
            amx::matmul(amx, scope, x, &product, k, epilogue, out);
        }
        #[cfg(target_arch = "aarch64")]
        (Compute::BFloat16, Isa::NeonBf16(simd)) => {
            multiply::<bf16>(isa, scope, x, (weights, k), epilogue, out, &|order| simd.vectorize(order), &|part| {
                simd.vectorize(part)
            });
        }
        (Compute::BFloat16, _) => {
            multiply::<Widened>(isa, scope, x, (weights, k), epilogue, out, &|order| isa.dispatch(order), &|part| {
                isa.dispatch(part)
            });
        }
    }
}

/// The product in the format `T`; `order` and `part` run the kernels of these names.
#[expect(clippy::too_many_arguments, reason = "those of a product, and how to run its two kernels")]
fn multiply<T: Target + Kept + Send + Sync>(
    isa: Isa,
    scope: &ThreadScope,
    x: &[f32],
    (weights, k): (Packed4Bit<'_>, usize),
    epilogue: Epilogue<'_>,
    out: &mut [f32],
    order: &(dyn Fn(Order<'_, T>) + Sync),
    part: &(dyn Fn(Part<'_, T>) + Sync),
) {
    let m = x.len() / k;
    let product = &Product { weights, x: &ordered(scope, x, k, order), m, k };
    divide(isa, scope, out, m, m * k, epilogue, &|rows, out| part(Part { product, rows, out }));
}

/// All inputs as `order` leaves them.
fn ordered<T: Kept + Send>(
    scope: &ThreadScope,
    x: &[f32],
    k: usize,
    order: &(dyn Fn(Order<'_, T>) + Sync),
) -> Scratch<T> {
    let mut ordered = Scratch::<T>::any(x.len());
    scope.split_mut(&mut ordered, k, 4 * k, &|first, out| {
        order(Order { x: &x[first * k..first * k + out.len()], k, out });
    });
    ordered
}

struct Product<'a, T> {
    weights: Packed4Bit<'a>,
    /// (m, k), each row as [`Order`] leaves it.
    x: &'a [T],
    m: usize,
    k: usize,
}

/// Brings rows of inputs into the format that they are multiplied in. Where rows consist of whole groups, also into the
/// order that decoding has numbers in: of those that some vectors hold together, every `APART`th comes first, beginning
/// with the first, and then those that begin with the second.
struct Order<'a, T> {
    x: &'a [f32],
    k: usize,
    out: &'a mut [T],
}

impl<S: Simd, T: Decoded<S>> Kernel<S> for Order<'_, T> {
    #[inline(always)]
    fn run(self, _: S) {
        let Self { x, k, out } = self;
        if !k.is_multiple_of(T::GROUP) {
            return x.iter().zip(out).for_each(|(x, out)| *out = T::nearest(*x));
        }
        let together = T::APART * T::STEP;
        for (x, out) in x.chunks_exact(together).zip(out.chunks_exact_mut(together)) {
            for (first, out) in out.chunks_exact_mut(T::STEP).enumerate() {
                out.iter_mut().zip(x[first..].iter().step_by(T::APART)).for_each(|(out, x)| *out = T::nearest(*x));
            }
        }
    }
}

/// A thread's rows of weights.
struct Part<'a, T> {
    product: &'a Product<'a, T>,
    rows: Range<usize>,
    out: Block<'a, f32>,
}

impl<S: Simd, T: Decoded<S>> Kernel<S> for Part<'_, T> {
    #[inline(always)]
    fn run(self, simd: S) {
        let Self { product, rows, mut out } = self;
        let out = &mut out;
        let whole = product.k.is_multiple_of(T::GROUP);
        match product.m {
            1 if whole => product.fused::<S, 1, 4>(simd, rows, out),
            2 if whole => product.fused::<S, 2, 4>(simd, rows, out),
            3 if whole => product.fused::<S, 3, 4>(simd, rows, out),
            4 if whole => product.fused::<S, 4, 4>(simd, rows, out),
            // Where there are registers for so many sums.
            5 if whole && const { S::TILE.0 == 4 } => product.fused::<S, 5, 3>(simd, rows, out),
            6 if whole && const { S::TILE.0 == 4 } => product.fused::<S, 6, 3>(simd, rows, out),
            7 if whole && const { S::TILE.0 == 4 } => product.fused::<S, 7, 3>(simd, rows, out),
            8 if whole && const { S::TILE.0 == 4 } => product.fused::<S, 8, 3>(simd, rows, out),
            _ => product.decoded(simd, rows, out),
        }
    }
}

impl<T: Copy> Product<'_, T> {
    /// All `M` inputs, of rows that are whole groups: numbers are multiplied as they are decoded.
    #[inline(always)]
    fn fused<S: Simd, const M: usize, const N: usize>(&self, simd: S, rows: Range<usize>, out: &mut Block<'_, f32>)
    where
        T: Decoded<S>,
    {
        let mut n = rows.start;
        while n + N <= rows.end {
            for along in blocks(0..self.k, K_BLOCK) {
                self.fused_tile::<S, M, N>(simd, n, along, n - rows.start, out);
            }
            n += N;
        }
        while n < rows.end {
            for along in blocks(0..self.k, K_BLOCK) {
                self.fused_tile::<S, M, 1>(simd, n, along, n - rows.start, out);
            }
            n += 1;
        }
    }

    /// Adds the products of rows `n..n + N` with all inputs, along whole groups, to the columns from `column` on.
    #[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
    #[inline(always)]
    fn fused_tile<S: Simd, const M: usize, const N: usize>(
        &self,
        simd: S,
        n: usize,
        along: Range<usize>,
        column: usize,
        out: &mut Block<'_, f32>,
    ) where
        T: Decoded<S>,
    {
        let Self { weights, x, k, .. } = *self;
        assert!(weights.packed.len() >= (n + N) * k / 2 && x.len() >= M * k && along.end <= k);
        let packed = weights.packed.as_ptr();
        // As much as this tile will read, in the order of memory.
        let next = packed.wrapping_add((n + N) * k / 2 + AHEAD);
        let mut sums = [[simd.zero(); N]; M];
        for at in along.step_by(T::GROUP) {
            if M <= INPUTS_KEPT {
                for j in 0..N {
                    let number = (n + j) * k + at;
                    simd.prefetch(next.wrapping_add((at * N + j * T::GROUP) / 2));
                    let table = self.table(simd, number);
                    for pair in (0..T::GROUP).step_by(T::PAIR) {
                        // SAFETY: whole groups of these rows of weights and inputs begin at `at`, as was checked before
                        // the loop, and both vectors of the pair lie within them.
                        unsafe {
                            let numbers = T::decode(simd, table, packed.add(number / 2), pair);
                            for i in 0..M {
                                let inputs = load_pair::<S, T>(simd, x.as_ptr().add(i * k + at + pair));
                                sums[i][j] = add_products::<S, T>(simd, numbers, inputs, sums[i][j]);
                            }
                        }
                    }
                }
            } else {
                for pair in (0..T::GROUP).step_by(T::PAIR) {
                    let mut numbers = [(T::none(simd), T::none(simd)); N];
                    for j in 0..N {
                        let number = (n + j) * k + at;
                        if pair == 0 {
                            simd.prefetch(next.wrapping_add((at * N + j * T::GROUP) / 2));
                        }
                        let table = self.table(simd, number);
                        // SAFETY: as was checked before the loop, a whole group of this row begins at `at`.
                        numbers[j] = unsafe { T::decode(simd, table, packed.add(number / 2), pair) };
                    }
                    for i in 0..M {
                        // SAFETY: as was checked before the loop, a whole group of this input begins at `at`.
                        let inputs = unsafe { load_pair::<S, T>(simd, x.as_ptr().add(i * k + at + pair)) };
                        for j in 0..N {
                            sums[i][j] = add_products::<S, T>(simd, numbers[j], inputs, sums[i][j]);
                        }
                    }
                }
            }
        }
        add_sums::<S, T, M, N>(simd, &sums, 0, column, out);
    }

    /// What the indices stand for in the group from this number on.
    #[inline(always)]
    fn table<S: Simd>(&self, simd: S, number: usize) -> T::Table
    where
        T: Decoded<S>,
    {
        let Packed4Bit { absmax, code, blocksize, .. } = self.weights;
        let shift = blocksize.trailing_zeros();
        debug_assert!((number + T::GROUP / 2) >> shift < absmax.len());
        // SAFETY: a whole group begins here, and `absmax` has a number for every block, as `Packed4Bit::check` has seen.
        let scales = unsafe {
            [*absmax.get_unchecked(number >> shift), *absmax.get_unchecked((number + T::GROUP / 2) >> shift)]
        };
        T::table(simd, code, scales)
    }

    /// Many inputs, or rows that begin in the middle of a group.
    #[inline(always)]
    fn decoded<S: Simd>(&self, simd: S, rows: Range<usize>, out: &mut Block<'_, f32>)
    where
        T: Decoded<S>,
    {
        decoded::multiply(simd, self.x, (self.m, self.k), rows, out, self);
    }
}

impl<S: Simd, T: Decoded<S>> DecodeRow<S, T> for Product<'_, T> {
    /// In the order of the inputs.
    #[inline(always)]
    fn decode_row(&self, simd: S, row: usize, along: Range<usize>, out: &mut [T]) {
        let Packed4Bit { packed, absmax, code, blocksize, .. } = self.weights;
        let (first, out) = (row * self.k + along.start, &mut out[..along.len()]);
        if self.k.is_multiple_of(T::GROUP) {
            let packed = &packed[first / 2..(first + out.len()) / 2];
            for (at, (packed, out)) in packed.chunks_exact(T::GROUP / 2).zip(out.chunks_exact_mut(T::GROUP)).enumerate()
            {
                let table = self.table(simd, first + at * T::GROUP);
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
            *out = T::nearest(code[usize::from(index)] * absmax[number >> blocksize.trailing_zeros()]);
        }
    }
}

/// Many inputs: 32 rows at a time are decoded.
#[cfg(target_arch = "x86_64")]
impl amx::TileProduct for Product<'_, bf16> {
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

#[inline(always)]
fn add_products<S: Simd, T: Decoded<S>>(
    simd: S,
    numbers: (T::Vector, T::Vector),
    inputs: (T::Vector, T::Vector),
    sums: S::F32,
) -> S::F32 {
    T::dot(simd, numbers.1, inputs.1, T::dot(simd, numbers.0, inputs.0, sums))
}

#[cfg(test)]
#[path = "packed4bit_tests.rs"]
mod tests;
