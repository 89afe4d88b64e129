//! Products with weights of 4 bits, which are decoded on the way.
//!
//! Each number is `code[index] * absmax` in float32, as bitsandbytes dequantizes it, whatever the shape of
//! the product; for products in bfloat16 it is rounded to that, as are the inputs. Sums are float32.

use std::ops::Range;

use half::bf16;

use super::decode::{Decoded, Widened};
use super::matmul::{FEW, INPUT_BLOCK, K_BLOCK, Output, Strip, Then, add_sums, share, tiles};
use super::pool::Shares;
use super::scratch::{Kept, Scratch};
#[cfg(target_arch = "x86_64")]
use super::simd::compiled_for;
use super::simd::{InstructionSet, Simd, dispatch};
use crate::model::Precision;

/// A matrix (n, k) in blocks of 4-bit numbers that run over its rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct FourBit<'a> {
    /// Two numbers each: the first in the upper half.
    pub packed: &'a [u8],
    /// What the largest number of each block stands for.
    pub absmax: &'a [f32],
    /// What each of the 16 indices stands for, as a part of `absmax`.
    pub code: &'a [f32; 16],
    /// Numbers in a block: a power of two, at least 32.
    pub blocksize: usize,
    /// What numbers are multiplied in: bfloat16, or else float32.
    pub compute: Precision,
}

/// The most rows of weights that are decoded into memory at once.
const ROWS: usize = 6;

/// Up to this many rows of inputs, a tile keeps these in registers while weights go by, and for more the weights.
const INPUTS_KEPT: usize = 4;

/// `out[m, n] += sum_k x[m, k] * weight[n, k]`, and what `then` says.
pub(super) fn multiply(
    set: InstructionSet,
    shares: &Shares,
    x: &[f32],
    weights: FourBit<'_>,
    (m, n, k): (usize, usize, usize),
    then: Then<'_>,
    out: &mut [f32],
) {
    let FourBit { packed, absmax, blocksize, .. } = weights;
    assert!(blocksize.is_power_of_two() && blocksize >= 32, "a block of {blocksize} numbers");
    assert_eq!(packed.len(), (n * k).div_ceil(2), "bytes of ({n}, {k}) numbers");
    assert_eq!(absmax.len(), (n * k).div_ceil(blocksize), "blocks of ({n}, {k}) numbers");
    let out = Output { start: out.as_mut_ptr(), m, n };
    // SAFETY: the lengths were checked above, and parts do not overlap.
    match weights.compute {
        #[cfg(target_arch = "x86_64")]
        Precision::BFloat16 if set == InstructionSet::Avx512Bf16 => {
            let order = |x: &[f32], out: &mut [bf16]| compiled_for!(Avx512Bf16, order::<bf16>(x: &[f32], k: usize, out: &mut [bf16]));
            let product = &Product { weights, x: &ordered(shares, x, k, &order), m, k, out };
            share(shares, out, m * k, then, &|rows| {
                compiled_for!(Avx512Bf16, columns::<bf16>(product: &Product<'_, bf16>, rows: Range<usize>));
            });
        }
        Precision::BFloat16 => {
            let order = |x: &[f32], out: &mut [Widened]| {
                dispatch!(set, order::<Widened>(x: &[f32], k: usize, out: &mut [Widened]));
            };
            let product = &Product { weights, x: &ordered(shares, x, k, &order), m, k, out };
            share(shares, out, m * k, then, &|rows| {
                dispatch!(set, columns::<Widened>(product: &Product<'_, Widened>, rows: Range<usize>));
            });
        }
        Precision::Float32 | Precision::Float16 => {
            let order = |x: &[f32], out: &mut [f32]| dispatch!(set, order::<f32>(x: &[f32], k: usize, out: &mut [f32]));
            let product = &Product { weights, x: &ordered(shares, x, k, &order), m, k, out };
            share(shares, out, m * k, then, &|rows| {
                dispatch!(set, columns::<f32>(product: &Product<'_, f32>, rows: Range<usize>));
            });
        }
    }
}

struct Product<'a, T> {
    weights: FourBit<'a>,
    /// (m, k), each row as [`order`] leaves it.
    x: &'a [T],
    m: usize,
    k: usize,
    out: Output,
}

/// The rows of `x` (m, k), as `order` leaves them.
fn ordered<T: Kept + Send>(
    shares: &Shares,
    x: &[f32],
    k: usize,
    order: &(dyn Fn(&[f32], &mut [T]) + Sync),
) -> Scratch<T> {
    let mut ordered = Scratch::any(x.len());
    shares.split_mut(&mut ordered, k, 4 * k, &|first, out| order(&x[first * k..first * k + out.len()], out));
    ordered
}

/// The rows of `x` in the format that they are multiplied in. Where rows consist of whole groups, the first,
/// third, fifth ... number of each pair of vectors comes first: decoding has them so.
///
/// # Safety
/// As for [`Simd`].
#[inline(always)]
unsafe fn order<S: Simd, T: Decoded<S>>(x: &[f32], k: usize, out: &mut [T]) {
    if !k.is_multiple_of(T::GROUP) {
        return x.iter().zip(out).for_each(|(x, out)| *out = T::nearest(*x));
    }
    for (x, out) in x.chunks_exact(T::PAIR).zip(out.chunks_exact_mut(T::PAIR)) {
        let (firsts, seconds) = out.split_at_mut(T::STEP);
        for ((pair, first), second) in x.chunks_exact(2).zip(firsts).zip(seconds) {
            (*first, *second) = (T::nearest(pair[0]), T::nearest(pair[1]));
        }
    }
}

/// # Safety
/// The lengths of `product` hold, and nobody else writes these columns of the output.
#[inline(always)]
unsafe fn columns<S: Simd, T: Decoded<S>>(product: &Product<'_, T>, rows: Range<usize>) {
    let whole = product.k.is_multiple_of(T::GROUP);
    // SAFETY: the caller's promise.
    unsafe {
        match (product.m, whole) {
            (1, true) => fused::<S, T, 1, 8>(product, rows),
            (2, true) if S::TILE.0 == 4 => fused::<S, T, 2, 8>(product, rows),
            (2, true) => fused::<S, T, 2, 4>(product, rows),
            (3, true) => fused::<S, T, 3, 6>(product, rows),
            (4, true) => fused::<S, T, 4, 4>(product, rows),
            (5, true) if S::TILE.0 == 4 => fused::<S, T, 5, 3>(product, rows),
            (6, true) if S::TILE.0 == 4 => fused::<S, T, 6, 3>(product, rows),
            (7, true) if S::TILE.0 == 4 => fused::<S, T, 7, 3>(product, rows),
            (8, true) if S::TILE.0 == 4 => fused::<S, T, 8, 3>(product, rows),
            _ => decoded::<S, T>(product, rows),
        }
    }
}

/// All `M` inputs, numbers multiplied as they are decoded.
///
/// # Safety
/// As [`columns`], with `M` inputs and rows of whole groups.
#[inline(always)]
unsafe fn fused<S: Simd, T: Decoded<S>, const M: usize, const N: usize>(product: &Product<'_, T>, rows: Range<usize>) {
    for start in (0..product.k).step_by(K_BLOCK) {
        let along = start..product.k.min(start + K_BLOCK);
        let mut n = rows.start;
        // SAFETY: the caller's promise.
        unsafe {
            while n + N <= rows.end {
                fused_tile::<S, T, M, N>(product, n, along.clone());
                n += N;
            }
            while n < rows.end {
                fused_tile::<S, T, M, 1>(product, n, along.clone());
                n += 1;
            }
        }
    }
}

/// # Safety
/// As [`fused`]; rows `n..n + N` exist.
#[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
#[inline(always)]
unsafe fn fused_tile<S: Simd, T: Decoded<S>, const M: usize, const N: usize>(
    product: &Product<'_, T>,
    n: usize,
    along: Range<usize>,
) {
    let Product { weights, x, k, out, .. } = product;
    // SAFETY: the caller's promise.
    unsafe {
        let input = |i: usize, at: usize| {
            let x = x.as_ptr().add(i * k + at);
            (T::load(x), T::load(x.add(T::STEP)))
        };
        let mut sums = [[S::zero(); N]; M];
        for at in along.step_by(T::GROUP) {
            if M <= INPUTS_KEPT {
                for j in 0..N {
                    let number = (n + j) * k + at;
                    if M <= FEW {
                        S::prefetch(weights.packed.as_ptr().wrapping_add((number + N * k) / 2));
                    }
                    let table = table::<S, T>(weights, number);
                    for pair in (0..T::GROUP).step_by(T::PAIR) {
                        let numbers = T::decode(table, weights.packed.as_ptr().add((number + pair) / 2));
                        for i in 0..M {
                            sums[i][j] = add_products::<S, T>(numbers, input(i, at + pair), sums[i][j]);
                        }
                    }
                }
            } else {
                for pair in (0..T::GROUP).step_by(T::PAIR) {
                    let mut numbers = [(T::none(), T::none()); N];
                    for j in 0..N {
                        let number = (n + j) * k + at;
                        let table = table::<S, T>(weights, number);
                        numbers[j] = T::decode(table, weights.packed.as_ptr().add((number + pair) / 2));
                    }
                    for i in 0..M {
                        let input = input(i, at + pair);
                        for j in 0..N {
                            sums[i][j] = add_products::<S, T>(numbers[j], input, sums[i][j]);
                        }
                    }
                }
            }
        }
        add_sums::<S, M, N>(&sums, out.start.add(n), out.n);
    }
}

/// # Safety
/// As for [`Simd`].
#[inline(always)]
unsafe fn add_products<S: Simd, T: Decoded<S>>(
    numbers: (T::Vector, T::Vector),
    inputs: (T::Vector, T::Vector),
    sums: S::F32,
) -> S::F32 {
    // SAFETY: the caller's promise.
    unsafe { T::dot(numbers.1, inputs.1, T::dot(numbers.0, inputs.0, sums)) }
}

/// What the indices stand for in the group from this number on.
///
/// # Safety
/// A whole group of `weights` begins here.
#[inline(always)]
unsafe fn table<S: Simd, T: Decoded<S>>(weights: &FourBit<'_>, number: usize) -> T::Table {
    let shift = weights.blocksize.trailing_zeros();
    // SAFETY: the caller's promise.
    unsafe {
        let scale = |number: usize| *weights.absmax.get_unchecked(number >> shift);
        T::table(weights.code, [scale(number), scale(number + T::GROUP / 2)])
    }
}

/// Decoded rows, whose vectors lie in one cache line each: those that lie in two take twice as long.
#[repr(align(64))]
struct Aligned<T>([T; ROWS * K_BLOCK]);

/// Many inputs, or rows that begin in the middle of a group: some rows at a time are decoded into memory,
/// and then multiplied as others are.
///
/// # Safety
/// As [`columns`].
#[inline(always)]
unsafe fn decoded<S: Simd, T: Decoded<S>>(product: &Product<'_, T>, rows: Range<usize>) {
    let Product { x, m, k, out, .. } = *product;
    let mut numbers = Aligned([T::nearest(0.0); ROWS * K_BLOCK]);
    for inputs in (0..m).step_by(INPUT_BLOCK).map(|start| start..m.min(start + INPUT_BLOCK)) {
        for along in (0..k).step_by(K_BLOCK).map(|start| start..k.min(start + K_BLOCK)) {
            for n in rows.clone().step_by(S::TILE.1) {
                let count = S::TILE.1.min(rows.end - n);
                for (row, numbers) in (n..n + count).zip(numbers.0.chunks_exact_mut(K_BLOCK)) {
                    // SAFETY: the caller's promise.
                    unsafe { decode_row::<S, T>(product, row, along.clone(), numbers) };
                }
                // SAFETY: as above; the rows were just decoded.
                unsafe {
                    let strip = |j: usize| Strip {
                        weights: numbers.0.as_ptr().add(j * K_BLOCK),
                        weights_stride: K_BLOCK,
                        x: x.as_ptr().add(along.start),
                        x_stride: k,
                        len: along.len(),
                        out: out.start.add(n + j),
                        out_stride: out.n,
                    };
                    match (S::TILE, count) {
                        ((4, 6), 6) => tiles::<S, T, 4, 6>(&strip(0), inputs.clone()),
                        ((3, 4), 4) => tiles::<S, T, 3, 4>(&strip(0), inputs.clone()),
                        _ => (0..count).for_each(|j| tiles::<S, T, 4, 1>(&strip(j), inputs.clone())),
                    }
                }
            }
        }
    }
}

/// # Safety
/// As [`columns`]; the row exists, and `out` has room for `along`.
#[inline(always)]
unsafe fn decode_row<S: Simd, T: Decoded<S>>(product: &Product<'_, T>, row: usize, along: Range<usize>, out: &mut [T]) {
    let Product { weights, k, .. } = product;
    let first = row * k + along.start;
    if k.is_multiple_of(T::GROUP) {
        for at in (0..along.len()).step_by(T::GROUP) {
            // SAFETY: the caller's promise; whole groups lie within the row.
            unsafe {
                let table = table::<S, T>(weights, first + at);
                for at in (at..at + T::GROUP).step_by(T::PAIR) {
                    let (firsts, seconds) = T::decode(table, weights.packed.as_ptr().add((first + at) / 2));
                    T::store(firsts, out.as_mut_ptr().add(at));
                    T::store(seconds, out.as_mut_ptr().add(at + T::STEP));
                }
            }
        }
        return;
    }
    let FourBit { packed, absmax, code, blocksize, .. } = *weights;
    for (number, out) in (first..first + along.len()).zip(out) {
        let byte = packed[number / 2];
        let index = if number.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
        *out = T::nearest(code[usize::from(index)] * absmax[number >> blocksize.trailing_zeros()]);
    }
}

#[cfg(test)]
#[path = "four_bit_tests.rs"]
mod tests;
