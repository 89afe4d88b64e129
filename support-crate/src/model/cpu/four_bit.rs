//! Products with weights of 4 bits, which are decoded on the way.
//!
//! Each number is `code[index] * absmax` in float32, as bitsandbytes dequantizes it, whatever the shape of
//! the product. Two neighbours share a byte, the first in the upper half. A vector of bytes gives one
//! vector of first and one of second numbers; so that nothing must be interleaved, inputs are brought into
//! this order once.

use std::ops::Range;

use super::matmul::{FEW, INPUT_BLOCK, K_BLOCK, Output, Strip, Then, add_sums, share, tiles};
use super::pool::Shares;
use super::scratch::Scratch;
use super::simd::{InstructionSet, Simd, dispatch};

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
}

/// Rows of weights that are decoded into memory at once, for more inputs than `FUSED`.
const ROWS: usize = 6;

/// Up to this many rows of inputs, numbers are multiplied as they are decoded.
const FUSED: usize = 4;

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
    let group = set.decoded_at_once();
    let aligned = k.is_multiple_of(group);
    let mut ordered = Scratch::<f32>::any(if aligned { x.len() } else { 0 });
    shares.split_mut(&mut ordered, group, 2 * group, &|first, out| {
        firsts_then_seconds(&x[first * group..first * group + out.len()], group, out);
    });
    let output = Output { start: out.as_mut_ptr(), m, n };
    let product = &Product { weights, x: if aligned { &ordered } else { x }, m, k, out: output, aligned };
    share(shares, output, m * k, then, &|rows| {
        // SAFETY: the lengths were checked above, and parts do not overlap.
        dispatch!(set, columns(product: &Product<'_>, rows: Range<usize>));
    });
}

struct Product<'a> {
    weights: FourBit<'a>,
    /// (m, k), in the order that decoding has if `aligned`.
    x: &'a [f32],
    m: usize,
    k: usize,
    out: Output,
    /// Whether rows begin and end with whole vectors of bytes.
    aligned: bool,
}

/// Each group of numbers as its first, third, fifth ... and then its second, fourth ...
fn firsts_then_seconds(x: &[f32], group: usize, out: &mut [f32]) {
    for (x, out) in x.chunks_exact(group).zip(out.chunks_exact_mut(group)) {
        let (firsts, seconds) = out.split_at_mut(group / 2);
        for ((pair, first), second) in x.chunks_exact(2).zip(firsts).zip(seconds) {
            (*first, *second) = (pair[0], pair[1]);
        }
    }
}

/// # Safety
/// The lengths of `product` hold, and nobody else writes these columns of the output.
#[inline(always)]
unsafe fn columns<S: Simd>(product: &Product<'_>, rows: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        match (product.m, product.aligned) {
            (1, true) => fused::<S, 1, 8>(product, rows),
            (2, true) if S::TILE.0 == 4 => fused::<S, 2, 8>(product, rows),
            (2, true) => fused::<S, 2, 4>(product, rows),
            (3, true) => fused::<S, 3, 6>(product, rows),
            (FUSED, true) => fused::<S, FUSED, 4>(product, rows),
            _ => decoded::<S>(product, rows),
        }
    }
}

/// All `M` inputs, numbers multiplied as they are decoded.
///
/// # Safety
/// As [`columns`], with `M` inputs and aligned rows.
#[inline(always)]
unsafe fn fused<S: Simd, const M: usize, const N: usize>(product: &Product<'_>, rows: Range<usize>) {
    for start in (0..product.k).step_by(K_BLOCK) {
        let along = start..product.k.min(start + K_BLOCK);
        let mut n = rows.start;
        // SAFETY: the caller's promise.
        unsafe {
            while n + N <= rows.end {
                fused_tile::<S, M, N>(product, n, along.clone());
                n += N;
            }
            while n < rows.end {
                fused_tile::<S, M, 1>(product, n, along.clone());
                n += 1;
            }
        }
    }
}

/// # Safety
/// As [`fused`]; rows `n..n + N` exist.
#[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
#[inline(always)]
unsafe fn fused_tile<S: Simd, const M: usize, const N: usize>(product: &Product<'_>, n: usize, along: Range<usize>) {
    let Product { weights, x, k, out, .. } = product;
    let shift = weights.blocksize.trailing_zeros();
    // SAFETY: the caller's promise.
    unsafe {
        let (packed, absmax, x) = (weights.packed.as_ptr(), weights.absmax.as_ptr(), x.as_ptr());
        let mut sums = [[S::zero(); N]; M];
        let mut inputs = [(S::zero(), S::zero()); M];
        for at in along.step_by(2 * S::LANES) {
            for i in 0..M {
                let x = x.add(i * k + at);
                inputs[i] = (S::load(x), S::load(x.add(S::LANES)));
            }
            for j in 0..N {
                let number = (n + j) * k + at;
                let table = S::table(weights.code, *absmax.add(number >> shift));
                let (first, second) = S::decode(table, packed.add(number / 2));
                if M <= FEW {
                    S::prefetch(packed.wrapping_add((number + N * k) / 2));
                }
                for i in 0..M {
                    sums[i][j] = S::mul_add(first, inputs[i].0, sums[i][j]);
                    sums[i][j] = S::mul_add(second, inputs[i].1, sums[i][j]);
                }
            }
        }
        add_sums::<S, M, N>(&sums, out.start.add(n), out.n);
    }
}

/// Many inputs, or rows that begin in the middle of a vector: some rows at a time are decoded into memory,
/// and then multiplied as others are.
///
/// # Safety
/// As [`columns`].
#[inline(always)]
unsafe fn decoded<S: Simd>(product: &Product<'_>, rows: Range<usize>) {
    let Product { x, m, k, out, .. } = *product;
    let mut numbers = [0.0_f32; ROWS * K_BLOCK];
    for inputs in (0..m).step_by(INPUT_BLOCK).map(|start| start..m.min(start + INPUT_BLOCK)) {
        for along in (0..k).step_by(K_BLOCK).map(|start| start..k.min(start + K_BLOCK)) {
            for n in rows.clone().step_by(ROWS) {
                let count = ROWS.min(rows.end - n);
                for (row, numbers) in (n..n + count).zip(numbers.chunks_exact_mut(K_BLOCK)) {
                    // SAFETY: the caller's promise.
                    unsafe { decode_row::<S>(product, row, along.clone(), numbers) };
                }
                // SAFETY: as above; the rows were just decoded.
                unsafe {
                    let strip = |j: usize| Strip {
                        weights: numbers.as_ptr().add(j * K_BLOCK),
                        weights_stride: K_BLOCK,
                        x: x.as_ptr().add(along.start),
                        x_stride: k,
                        len: along.len(),
                        out: out.start.add(n + j),
                        out_stride: out.n,
                    };
                    match (count, S::TILE) {
                        (ROWS, (4, _)) => tiles::<S, f32, 4, ROWS>(&strip(0), inputs.clone()),
                        (ROWS, (3, _)) => {
                            tiles::<S, f32, 3, 3>(&strip(0), inputs.clone());
                            tiles::<S, f32, 3, 3>(&strip(3), inputs.clone());
                        }
                        _ => (0..count).for_each(|j| tiles::<S, f32, 4, 1>(&strip(j), inputs.clone())),
                    }
                }
            }
        }
    }
}

/// # Safety
/// As [`columns`]; the row exists, and `out` has room for `along`.
#[inline(always)]
unsafe fn decode_row<S: Simd>(product: &Product<'_>, row: usize, along: Range<usize>, out: &mut [f32]) {
    let Product { weights, k, aligned, .. } = product;
    let FourBit { packed, absmax, code, blocksize } = *weights;
    let shift = blocksize.trailing_zeros();
    let first = row * k + along.start;
    if *aligned {
        for at in (0..along.len()).step_by(2 * S::LANES) {
            let number = first + at;
            // SAFETY: the caller's promise; whole vectors lie within the row.
            unsafe {
                let table = S::table(code, *absmax.get_unchecked(number >> shift));
                let (firsts, seconds) = S::decode(table, packed.as_ptr().add(number / 2));
                S::store(firsts, out.as_mut_ptr().add(at));
                S::store(seconds, out.as_mut_ptr().add(at + S::LANES));
            }
        }
        return;
    }
    for (number, out) in (first..first + along.len()).zip(out) {
        let byte = packed[number / 2];
        let index = if number.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
        *out = code[usize::from(index)] * absmax[number >> shift];
    }
}

#[cfg(test)]
#[path = "four_bit_tests.rs"]
mod tests;
