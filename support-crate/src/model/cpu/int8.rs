//! Products with weights of 8 bits and inputs that are rounded to 8 bits as they come.
//!
//! Sums are exact integers, so neither their order nor the instructions matter.
//!
//! Source: Dettmers et al. 2022, arXiv:2208.07339 (LLM.int8()); `MatMul8bitLt` in bitsandbytes.

use std::ops::Range;

use half::f16;

use super::matmul::{FEW, Output, Then, share};
use super::pool::Shares;
use super::simd::{InstructionSet, Simd, dispatch};

/// A matrix (n, k) of rows with a scale each.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct Int8<'a> {
    pub values: &'a [i8],
    /// The largest absolute value of each row: `SCB` in bitsandbytes. A weight is `value * absmax / 127`.
    pub absmax: &'a [f32],
    /// The sum of each row's values.
    pub sums: &'a [i32],
    /// How inputs are rounded.
    pub inputs: Inputs,
}

/// How inputs are rounded to 8 bits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::model) enum Inputs {
    /// Each row by its largest absolute value. With a `threshold` above 0, columns in which any row reaches
    /// it are multiplied as they are, and count for no row's largest value; inputs are rounded to float16
    /// first, as bitsandbytes does.
    Dynamic { threshold: f32 },
    /// All by one scale that was found before: an input is `value * scale`.
    Static { scale: f32 },
}

/// Rows of inputs in 8 bits.
struct Rounded {
    /// (m, k), shifted by 128 if the instructions want them without sign.
    values: Vec<i8>,
    /// An input is `value * scale`.
    scales: Vec<f32>,
    /// Columns that are multiplied as they are, in ascending order.
    outliers: Vec<usize>,
    /// The inputs of these columns, (m, outliers).
    kept: Vec<f32>,
}

/// `out[m, n] += sum_k x[m, k] * weight[n, k]`, and what `then` says.
pub(super) fn multiply(
    set: InstructionSet,
    shares: &Shares,
    x: &[f32],
    weights: Int8<'_>,
    (m, n, k): (usize, usize, usize),
    then: Then<'_>,
    out: &mut [f32],
) {
    assert_eq!(weights.values.len(), n * k, "bytes of ({n}, {k}) numbers");
    assert!(weights.absmax.len() == n && weights.sums.len() == n, "a scale and a sum for each of {n} rows");
    let mut rounded = round(x, k, weights.inputs, shares);
    let shift = set.takes_bytes_without_sign();
    if shift {
        rounded.values.iter_mut().for_each(|value| *value ^= i8::MIN);
    }
    let output = Output { start: out.as_mut_ptr(), m, n };
    let product = &Product { weights, inputs: &rounded, m, k, out: output };
    share(shares, output, m * k / 4, then, &|rows| {
        // SAFETY: the lengths were checked above, and parts do not overlap.
        dispatch!(set, columns(product: &Product<'_>, rows: Range<usize>));
    });
}

struct Product<'a> {
    weights: Int8<'a>,
    inputs: &'a Rounded,
    m: usize,
    k: usize,
    out: Output,
}

fn round(x: &[f32], k: usize, inputs: Inputs, shares: &Shares) -> Rounded {
    let m = x.len() / k;
    let mut values = vec![0; x.len()];
    match inputs {
        Inputs::Static { scale } => {
            shares.split_mut(&mut values, k, 4 * k, &|first, out| {
                round_row(&x[first * k..first * k + out.len()], 1.0 / scale, out);
            });
            Rounded { values, scales: vec![scale; m], outliers: Vec::new(), kept: Vec::new() }
        }
        Inputs::Dynamic { threshold } => {
            // An infinity in float16 stays one in the products, where it can be seen.
            let narrow: Vec<f32> = match threshold > 0.0 {
                true => x.iter().map(|&x| f16::from_f32(x).to_f32()).collect(),
                false => Vec::new(),
            };
            let x = if threshold > 0.0 { &narrow } else { x };
            let outliers = if threshold > 0.0 { columns_that_reach(x, k, threshold) } else { Vec::new() };
            let kept = x.chunks_exact(k).flat_map(|row| outliers.iter().map(|&column| row[column])).collect();
            let mut scales = vec![0.0; m];
            for ((row, out), scale) in x.chunks_exact(k).zip(values.chunks_exact_mut(k)).zip(&mut scales) {
                let reaches = |x: f32| threshold > 0.0 && x.abs() >= threshold;
                let absmax = row.iter().map(|x| if reaches(*x) { 0.0 } else { x.abs() }).fold(0.0, f32::max);
                let nan = row.iter().any(|x| x.is_nan());
                round_row(row, if absmax > 0.0 { 127.0 / absmax } else { 0.0 }, out);
                outliers.iter().for_each(|&column| out[column] = 0);
                *scale = if nan { f32::NAN } else { absmax / 127.0 };
            }
            Rounded { values, scales, outliers, kept }
        }
    }
}

fn columns_that_reach(x: &[f32], k: usize, threshold: f32) -> Vec<usize> {
    let mut reached = vec![false; k];
    for row in x.chunks_exact(k) {
        reached.iter_mut().zip(row).for_each(|(reached, x)| *reached |= x.abs() >= threshold);
    }
    (0..k).filter(|&column| reached[column]).collect()
}

/// To the nearest integer, ties to even, at most 127 in size.
fn round_row(x: &[f32], factor: f32, out: &mut [i8]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = (x * factor).round_ties_even().clamp(-127.0, 127.0) as i8;
    }
}

/// # Safety
/// The lengths of `product` hold, and nobody else writes these columns of the output.
#[inline(always)]
unsafe fn columns<S: Simd>(product: &Product<'_>, rows: Range<usize>) {
    // SAFETY: the caller's promise.
    unsafe {
        match (product.m, S::TILE) {
            (1, _) => strips::<S, 1, 8>(product, rows),
            (2, (4, _)) => strips::<S, 2, 8>(product, rows),
            (3, (4, _)) => strips::<S, 3, 8>(product, rows),
            (_, (4, 6)) => strips::<S, 4, 6>(product, rows),
            (_, (3, 4)) => strips::<S, 3, 4>(product, rows),
            _ => strips::<S, 2, 2>(product, rows),
        }
    }
}

/// # Safety
/// As [`columns`].
#[inline(always)]
unsafe fn strips<S: Simd, const M: usize, const N: usize>(product: &Product<'_>, rows: Range<usize>) {
    let mut n = rows.start;
    // SAFETY: the caller's promise.
    unsafe {
        while n + N <= rows.end {
            tiles::<S, M, N>(product, n);
            n += N;
        }
        while n < rows.end {
            tiles::<S, M, 1>(product, n);
            n += 1;
        }
    }
}

/// # Safety
/// As [`columns`]; rows `n..n + N` exist.
#[inline(always)]
unsafe fn tiles<S: Simd, const M: usize, const N: usize>(product: &Product<'_>, n: usize) {
    let mut m = 0;
    // SAFETY: the caller's promise.
    unsafe {
        while m + M <= product.m {
            tile::<S, M, N>(product, m, n);
            m += M;
        }
        match product.m - m {
            3 => tile::<S, 3, N>(product, m, n),
            2 => tile::<S, 2, N>(product, m, n),
            1 => tile::<S, 1, N>(product, m, n),
            _ => (),
        }
    }
}

/// # Safety
/// As [`columns`]; inputs `m..m + M` and rows `n..n + N` exist.
#[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
#[inline(always)]
unsafe fn tile<S: Simd, const M: usize, const N: usize>(product: &Product<'_>, m: usize, n: usize) {
    let Product { weights, inputs: rounded, k, out, .. } = *product;
    // SAFETY: the caller's promise.
    unsafe {
        let (values, x) = (weights.values.as_ptr().add(n * k), rounded.values.as_ptr().add(m * k));
        let mut sums = [[S::zero_i32(); N]; M];
        let mut inputs = [S::load_bytes(x, 1.min(k)); M];
        for at in (0..k).step_by(S::BYTES) {
            let count = k - at;
            for i in 0..M {
                inputs[i] = S::load_bytes(x.add(i * k + at), count);
            }
            for j in 0..N {
                let weight = S::load_bytes(values.add(j * k + at), count);
                if M <= FEW {
                    S::prefetch(values.wrapping_add((j + N) * k + at));
                }
                for i in 0..M {
                    sums[i][j] = S::byte_dot(inputs[i], weight, sums[i][j]);
                }
            }
        }
        for j in 0..N {
            // Inputs that were shifted by 128 have added that many times the row.
            let shifted = if S::UNSIGNED { 128 * weights.sums[n + j] } else { 0 };
            let scale = weights.absmax[n + j] / 127.0;
            for i in 0..M {
                let sum = (S::sum_i32(sums[i][j]) - shifted) as f32;
                let mut result = sum * (rounded.scales[m + i] * scale);
                let kept = rounded.kept.chunks_exact(rounded.outliers.len().max(1)).nth(m + i).unwrap_or(&[]);
                for (x, &column) in kept.iter().zip(&rounded.outliers) {
                    result += x * (f32::from(*values.add(j * k + column)) * scale);
                }
                *out.start.add((m + i) * out.n + n + j) += result;
            }
        }
    }
}

#[cfg(test)]
#[path = "int8_tests.rs"]
mod tests;
