//! Products with weights of 8 bits and inputs that are rounded to 8 bits: each row by its own scale as it comes,
//! or all by scales that were fixed beforehand.
//!
//! Sums are exact integers, so neither their order nor the instructions matter.
//!
//! Source: Dettmers et al. 2022, arXiv:2208.07339 (LLM.int8()); `MatMul8bitLt` in bitsandbytes. Fixed scales:
//! [`StaticInt8`](crate::quant::StaticInt8).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::elementwise;
use super::matmul::{FEW, INPUT_BLOCK, Output, Then, share};
use super::pool::Shares;
use super::scratch::Scratch;
use super::simd::{InstructionSet, Simd, dispatch};
use crate::quant::{PER_PRODUCT, PER_STEP, int8_factor};

/// A matrix (n, k) of rows with a scale each.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct Int8<'a> {
    pub values: &'a [i8],
    /// The largest absolute value of each row: `SCB` in bitsandbytes. A weight is `value * absmax / 127`.
    pub absmax: &'a [f32],
    /// The sum of each row's values.
    pub sums: &'a [i32],
    pub inputs: Inputs<'a>,
}

/// How inputs become 8 bits.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) enum Inputs<'a> {
    /// Each row by its largest absolute value.
    Dynamic {
        /// Columns in which any row of inputs reaches this are multiplied as they are, and inputs are rounded to
        /// float16 first, as bitsandbytes does; 0 for neither.
        threshold: f32,
    },
    /// All by the same scales.
    Static {
        /// What the input of each column is multiplied by: (k).
        factors: &'a [f32],
        /// What the products are multiplied by, besides the scale of a row of weights.
        scale: f32,
    },
}

/// Rows of inputs in 8 bits.
struct Rounded {
    /// (m, k), shifted by 128 if the instructions want them without sign.
    values: Scratch<i8>,
    /// One for each row: its largest absolute value, 127 in 8 bits, or the scale that was fixed. NaN for a row
    /// that has no 8 bits.
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
    let shifted = set.takes_bytes_without_sign();
    let rounded = match weights.inputs {
        Inputs::Dynamic { threshold } => round(x, k, threshold, shifted, shares),
        Inputs::Static { factors, scale } => {
            assert_eq!(factors.len(), k, "a factor for each of {k} columns");
            round_by(x, factors, scale, shifted, shares)
        }
    };
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

/// Each row by its largest absolute value, and then `shifted` by 128 if that is wanted.
fn round(x: &[f32], k: usize, threshold: f32, shifted: bool, shares: &Shares) -> Rounded {
    let flipped = if shifted { i8::MIN } else { 0 };
    let mut values = Scratch::<i8>::any(x.len());
    let mut narrow = Scratch::<f32>::any(if threshold > 0.0 { x.len() } else { 0 });
    shares.split_mut(&mut narrow, 1, 8, &|first, out| through_float16(&x[first..first + out.len()], out));
    let exact = x;
    let x = if threshold > 0.0 { &*narrow } else { x };
    let outliers = if threshold > 0.0 { columns_that_reach(x, k, threshold) } else { Vec::new() };
    let kept = exact.chunks_exact(k).flat_map(|row| outliers.iter().map(|&column| row[column])).collect();
    // Without a threshold an infinity counts too: it makes the row NaN, where it can be seen.
    let largest = if threshold > 0.0 { threshold.next_down() } else { f32::INFINITY };
    let mut absmax = vec![0.0; x.len() / k];
    shares.split_mut(&mut absmax, 1, 2 * k, &|first, out| {
        for (row, out) in (first..).zip(out) {
            *out = elementwise::absmax_up_to(&x[row * k..(row + 1) * k], largest);
        }
    });
    shares.split_mut(&mut values, k, 4 * k, &|first, out| {
        for (row, out) in (first..).zip(out.chunks_exact_mut(k)) {
            elementwise::to_bytes(&x[row * k..(row + 1) * k], int8_factor(absmax[row]), out);
            outliers.iter().for_each(|&column| out[column] = 0);
            out.iter_mut().for_each(|value| *value ^= flipped);
        }
    });
    Rounded { values, scales: absmax, outliers, kept }
}

/// Each column by its factor, and then `shifted` by 128 if that is wanted: one pass over the inputs.
fn round_by(x: &[f32], factors: &[f32], scale: f32, shifted: bool, shares: &Shares) -> Rounded {
    let k = factors.len();
    let flip = if shifted { i8::MIN } else { 0 };
    let mut values = Scratch::<i8>::any(x.len());
    let is_finite: Vec<AtomicBool> = (0..x.len() / k).map(|_| AtomicBool::new(false)).collect();
    shares.split_mut(&mut values, k, 4 * k, &|first, out| {
        for (row, out) in (first..).zip(out.chunks_exact_mut(k)) {
            let finite = elementwise::to_bytes_by(&x[row * k..(row + 1) * k], factors, flip, out);
            is_finite[row].store(finite, Ordering::Relaxed);
        }
    });
    // Clipping would hide what is not: such rows become NaN, as they do with scales of their own.
    let scales = is_finite.into_iter().map(|finite| if finite.into_inner() { scale } else { f32::NAN }).collect();
    Rounded { values, scales, outliers: Vec::new(), kept: Vec::new() }
}

fn through_float16(x: &[f32], out: &mut [f32]) {
    let mut narrow = [f16::ZERO; 1024];
    for (x, out) in x.chunks(narrow.len()).zip(out.chunks_mut(narrow.len())) {
        let narrow = &mut narrow[..x.len()];
        narrow.convert_from_f32_slice(x);
        narrow.convert_to_f32_slice(out);
    }
}

fn columns_that_reach(x: &[f32], k: usize, threshold: f32) -> Vec<usize> {
    let mut reached = vec![false; k];
    for row in x.chunks_exact(k) {
        reached.iter_mut().zip(row).for_each(|(reached, x)| *reached |= x.abs() >= threshold);
    }
    (0..k).filter(|&column| reached[column]).collect()
}

/// # Safety
/// The lengths of `product` hold, and nobody else writes these columns of the output.
#[inline(always)]
unsafe fn columns<S: Simd>(product: &Product<'_>, rows: Range<usize>) {
    let mut sums = vec![0_i32; INPUT_BLOCK.min(product.m) * rows.len()];
    for inputs in (0..product.m).step_by(INPUT_BLOCK).map(|start| start..product.m.min(start + INPUT_BLOCK)) {
        let block = Block { product, rows: rows.clone(), inputs: inputs.clone(), sums: sums.as_mut_ptr() };
        // SAFETY: the caller's promise.
        unsafe {
            match (inputs.len(), S::TILE) {
                (1, _) => strips::<S, 1, 8>(&block),
                (2, (4, _)) => strips::<S, 2, 8>(&block),
                (3, (4, _)) => strips::<S, 3, 8>(&block),
                (_, (4, 6)) => strips::<S, 4, 6>(&block),
                (_, (3, 4)) => strips::<S, 3, 4>(&block),
                _ => strips::<S, 2, 2>(&block),
            }
        }
        for (m, sums) in inputs.zip(sums.chunks_exact(rows.len())) {
            // SAFETY: as above.
            let out = unsafe {
                std::slice::from_raw_parts_mut(product.out.start.add(m * product.out.n + rows.start), rows.len())
            };
            product.finish(m, rows.clone(), sums, if S::UNSIGNED { 128 } else { 0 }, out);
        }
    }
}

impl Product<'_> {
    /// Adds sums of products of bytes to the output of input `m`, as the numbers that they stand for, and
    /// what was kept out of them. Inputs were shifted by `shift`.
    fn finish(&self, m: usize, rows: Range<usize>, sums: &[i32], shift: i32, out: &mut [f32]) {
        let Self { weights, inputs, k, .. } = self;
        let (absmax, row_sums) = (&weights.absmax[rows.clone()], &weights.sums[rows.clone()]);
        let scale = inputs.scales[m];
        match weights.inputs {
            Inputs::Dynamic { .. } => {
                elementwise::add_scaled(sums, row_sums, shift, absmax, scale, PER_PRODUCT, out);
            }
            Inputs::Static { .. } => elementwise::add_scaled_by(sums, row_sums, shift, absmax, scale, out),
        }
        let count = inputs.outliers.len();
        if count == 0 {
            return;
        }
        let kept = &inputs.kept[m * count..(m + 1) * count];
        for ((row, absmax), out) in rows.zip(absmax).zip(out) {
            let weights = &weights.values[row * k..(row + 1) * k];
            for (x, &column) in kept.iter().zip(&inputs.outliers) {
                *out += x * (f32::from(weights[column]) * absmax * PER_STEP);
            }
        }
    }
}

/// Some inputs with a thread's rows of weights.
struct Block<'a> {
    product: &'a Product<'a>,
    rows: Range<usize>,
    inputs: Range<usize>,
    /// (inputs, rows)
    sums: *mut i32,
}

/// # Safety
/// As [`columns`].
#[inline(always)]
unsafe fn strips<S: Simd, const M: usize, const N: usize>(block: &Block<'_>) {
    let mut n = block.rows.start;
    // SAFETY: the caller's promise.
    unsafe {
        while n + N <= block.rows.end {
            tiles::<S, M, N>(block, n);
            n += N;
        }
        while n < block.rows.end {
            tiles::<S, M, 1>(block, n);
            n += 1;
        }
    }
}

/// # Safety
/// As [`columns`]; rows `n..n + N` exist.
#[inline(always)]
unsafe fn tiles<S: Simd, const M: usize, const N: usize>(block: &Block<'_>, n: usize) {
    let mut m = block.inputs.start;
    // SAFETY: the caller's promise.
    unsafe {
        while m + M <= block.inputs.end {
            tile::<S, M, N>(block, m, n);
            m += M;
        }
        match block.inputs.end - m {
            3 => tile::<S, 3, N>(block, m, n),
            2 => tile::<S, 2, N>(block, m, n),
            1 => tile::<S, 1, N>(block, m, n),
            _ => (),
        }
    }
}

/// # Safety
/// As [`columns`]; inputs `m..m + M` and rows `n..n + N` exist.
#[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
#[inline(always)]
unsafe fn tile<S: Simd, const M: usize, const N: usize>(block: &Block<'_>, m: usize, n: usize) {
    let Product { weights, inputs: rounded, k, .. } = *block.product;
    // SAFETY: the caller's promise.
    unsafe {
        let (values, x) = (weights.values.as_ptr().add(n * k), rounded.values.as_ptr().add(m * k));
        let mut sums = [[S::zero_i32(); N]; M];
        let whole = k - k % S::BYTES;
        let mut inputs = [S::load_bytes_part(x, 0); M];
        for at in (0..whole).step_by(S::BYTES) {
            for i in 0..M {
                inputs[i] = S::load_bytes(x.add(i * k + at));
            }
            for j in 0..N {
                let weight = S::load_bytes(values.add(j * k + at));
                if M <= FEW {
                    S::prefetch(values.wrapping_add((j + N) * k + at));
                }
                for i in 0..M {
                    sums[i][j] = S::byte_dot(inputs[i], weight, sums[i][j]);
                }
            }
        }
        if whole < k {
            for i in 0..M {
                inputs[i] = S::load_bytes_part(x.add(i * k + whole), k - whole);
            }
            for j in 0..N {
                let weight = S::load_bytes_part(values.add(j * k + whole), k - whole);
                for i in 0..M {
                    sums[i][j] = S::byte_dot(inputs[i], weight, sums[i][j]);
                }
            }
        }
        let to = block.sums.add((m - block.inputs.start) * block.rows.len() + n - block.rows.start);
        for (i, sums) in sums.iter().enumerate() {
            for first in (0..N).step_by(4) {
                let at = |j: usize| if j < N { sums[j] } else { S::zero_i32() };
                let four = S::sums_i32([at(first), at(first + 1), at(first + 2), at(first + 3)]);
                let to = to.add(i * block.rows.len() + first);
                for (j, sum) in four.iter().enumerate().take(N - first) {
                    *to.add(j) = *sum;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "int8_tests.rs"]
mod tests;
