//! Products of inputs with a matrix of weights, from one row of inputs to thousands.
//!
//! Both are read along K, which is the order that they are stored in: nothing is packed or transposed,
//! a decode step streams the weights once, and a prompt takes them in tiles of several rows of inputs
//! by several rows of weights, with one vector of sums for each pair. Each sum is made of the same
//! additions in the same order whatever the tile, so a sequence's numbers depend neither on its
//! neighbours in a batch nor on whether its tokens came together or one by one.

use std::ops::Range;

use half::bf16;

use super::decode::Widened;
use super::elementwise::{self, Activation};
use super::four_bit::{self, FourBit};
use super::int8::{self, Int8};
use super::pool::Shares;
use super::scratch::Scratch;
use super::simd::{InstructionSet, Simd, dispatch};

/// A matrix of weights, (n, k) row by row.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) struct Matrix<'a> {
    pub weights: Weights<'a>,
    /// Outputs.
    pub n: usize,
    /// Inputs.
    pub k: usize,
}

/// What a matrix is stored as.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) enum Weights<'a> {
    Full(Numbers<'a>),
    FourBit(FourBit<'a>),
    Int8(Int8<'a>),
}

/// Numbers in full precision.
#[derive(Debug, Clone, Copy)]
pub(in crate::model) enum Numbers<'a> {
    Float32(&'a [f32]),
    /// Inputs of products are rounded to bfloat16 too; sums are float32.
    BFloat16(&'a [bf16]),
}

/// What becomes of the products.
#[derive(Clone, Copy, Default)]
pub(in crate::model) struct Then<'a> {
    /// Added to each row of outputs.
    pub bias: Option<&'a [f32]>,
    /// Whether the result is added to what the output holds already (a residual connection).
    pub accumulate: bool,
    /// Applied last.
    pub activation: Option<Activation>,
}

/// Rows of inputs that stay in the second-level cache while weights go by.
pub(super) const INPUT_BLOCK: usize = 128;

/// Rows of inputs that are converted to another format, or brought into another order, at once: of thousands, the
/// copy would be memory fresh from the system each time.
const CONVERTED: usize = 512;

/// Numbers along K that are multiplied before a sum of vectors becomes a number: a tile's rows of
/// weights then stay in the first-level cache.
pub(super) const K_BLOCK: usize = 1024;

/// Up to this many rows of inputs, weights are asked for one tile ahead: they come from main memory, in too
/// many streams for the processor to foresee.
pub(super) const FEW: usize = 1;

/// Rows of a thread's part are a multiple of this, so that tiles come out even.
const ROWS_TOGETHER: usize = 24;

/// `out[m, n] = sum_k x[m, k] * weight[n, k]`, and what `then` says.
///
/// `x` (M, K) and `out` (M, N), M at least 1.
pub(in crate::model) fn multiply(shares: &Shares, x: &[f32], matrix: Matrix<'_>, then: Then<'_>, out: &mut [f32]) {
    multiply_with(InstructionSet::best(), shares, x, matrix, then, out);
}

pub(super) fn multiply_with(
    set: InstructionSet,
    shares: &Shares,
    x: &[f32],
    matrix: Matrix<'_>,
    then: Then<'_>,
    out: &mut [f32],
) {
    let Matrix { weights, n, k } = matrix;
    let m = x.len() / k;
    assert_eq!((x.len(), out.len()), (m * k, m * n), "inputs or outputs of another shape than ({m}, {k}), ({m}, {n})");
    assert!(then.bias.is_none_or(|bias| bias.len() == n), "a bias of another length than {n}");
    let together = match weights {
        // All inputs of an int8 product have a say in which columns are kept out of it.
        Weights::Full(Numbers::Float32(_)) | Weights::Int8(_) => m.max(1),
        Weights::Full(Numbers::BFloat16(_)) | Weights::FourBit(_) => CONVERTED,
    };
    for (x, out) in x.chunks(together * k).zip(out.chunks_mut(together * n)) {
        multiply_rows(set, shares, x, matrix, then, out);
    }
}

fn multiply_rows(set: InstructionSet, shares: &Shares, x: &[f32], matrix: Matrix<'_>, then: Then<'_>, out: &mut [f32]) {
    let Matrix { weights, n, k } = matrix;
    let m = x.len() / k;
    let output = Output { start: out.as_mut_ptr(), m, n };
    match weights {
        Weights::Full(Numbers::Float32(weights)) => {
            assert_eq!(weights.len(), n * k, "weights of another shape than ({n}, {k})");
            let operands = &Operands::new(weights, x, k, output);
            share(shares, output, m * k, then, &|rows| {
                // SAFETY: `operands` describes slices that live until `share` returns; parts do not overlap.
                dispatch!(set, product::<f32>(operands: &Operands<f32>, rows: Range<usize>))
            });
        }
        Weights::Full(Numbers::BFloat16(weights)) => {
            assert_eq!(weights.len(), n * k, "weights of another shape than ({n}, {k})");
            let mut rounded = Scratch::<bf16>::any(x.len());
            shares.split_mut(&mut rounded, 1, 4, &|first, out| elementwise::round(&x[first..first + out.len()], out));
            let operands = &Operands::new(weights, &rounded, k, output);
            share(shares, output, m * k, then, &|rows| {
                // SAFETY: as above.
                dispatch!(set, product::<bf16>(operands: &Operands<bf16>, rows: Range<usize>))
            });
        }
        Weights::FourBit(weights) => four_bit::multiply(set, shares, x, weights, (m, n, k), then, out),
        Weights::Int8(weights) => int8::multiply(set, shares, x, weights, (m, n, k), then, out),
    }
}

/// Memory by its addresses, because threads write to different columns of the same output.
#[derive(Clone, Copy)]
pub(super) struct Operands<T> {
    /// Rows of `k` numbers, one after the other.
    pub weights: *const T,
    /// `m` rows of `k` numbers, `x_stride` apart.
    pub x: *const T,
    pub x_stride: usize,
    pub m: usize,
    pub k: usize,
    /// `m` rows, `out_stride` apart, with a number for each row of weights.
    pub out: *mut f32,
    pub out_stride: usize,
}

// SAFETY: threads read the inputs, and each writes its own columns of the output.
unsafe impl<T> Sync for Operands<T> {}

impl<T> Operands<T> {
    fn new(weights: &[T], x: &[T], k: usize, Output { start, m, n }: Output) -> Self {
        Self { weights: weights.as_ptr(), x: x.as_ptr(), x_stride: k, m, k, out: start, out_stride: n }
    }
}

/// Where a product of `m` rows and `n` columns goes: several threads write to different columns.
#[derive(Clone, Copy)]
pub(super) struct Output {
    pub start: *mut f32,
    pub m: usize,
    pub n: usize,
}

// SAFETY: each thread writes its own columns.
unsafe impl Sync for Output {}

/// Divides the rows of weights among the threads: calls `run` for ranges of them, between what comes
/// before and after the product. `work` is the number of multiplications for each row of weights.
pub(super) fn share(shares: &Shares, out: Output, work: usize, then: Then<'_>, run: &(dyn Fn(Range<usize>) + Sync)) {
    let out = &out;
    shares.split(out.n, ROWS_TOGETHER, work, &|rows| {
        // SAFETY: rows lie within (m, n), and this call alone writes these columns.
        let part =
            |m: usize| unsafe { std::slice::from_raw_parts_mut(out.start.add(m * out.n + rows.start), rows.len()) };
        for m in 0..out.m {
            begin(part(m), then, rows.clone());
        }
        run(rows.clone());
        if let Some(activation) = then.activation {
            (0..out.m).for_each(|m| elementwise::activate(part(m), activation));
        }
    });
}

/// What the sums are added to.
fn begin(out: &mut [f32], then: Then<'_>, columns: Range<usize>) {
    match (then.bias, then.accumulate) {
        (Some(bias), false) => out.copy_from_slice(&bias[columns]),
        (Some(bias), true) => out.iter_mut().zip(&bias[columns]).for_each(|(out, bias)| *out += bias),
        (None, false) => out.fill(0.0),
        (None, true) => (),
    }
}

/// A number format that inputs and weights of a product have.
///
/// # Safety
/// As for [`Simd`].
pub(super) trait Factor<S: Simd>: Copy {
    /// Numbers that are multiplied at once.
    const STEP: usize;
    type Vector: Copy;
    unsafe fn none() -> Self::Vector;
    unsafe fn load(from: *const Self) -> Self::Vector;
    unsafe fn load_part(from: *const Self, count: usize) -> Self::Vector;
    unsafe fn dot(a: Self::Vector, b: Self::Vector, sums: S::F32) -> S::F32;
}

/// Float32 in memory, whatever it is rounded to.
macro_rules! float32_factor {
    ($($number:ty),*) => {$(
        impl<S: Simd> Factor<S> for $number {
            const STEP: usize = S::LANES;
            type Vector = S::F32;

            #[inline(always)]
            unsafe fn none() -> S::F32 {
                // SAFETY: the caller's promise.
                unsafe { S::zero() }
            }
            #[inline(always)]
            unsafe fn load(from: *const $number) -> S::F32 {
                // SAFETY: as above.
                unsafe { S::load(from.cast()) }
            }
            #[inline(always)]
            unsafe fn load_part(from: *const $number, count: usize) -> S::F32 {
                // SAFETY: as above.
                unsafe { S::load_part(from.cast(), count) }
            }
            #[inline(always)]
            unsafe fn dot(a: S::F32, b: S::F32, sums: S::F32) -> S::F32 {
                // SAFETY: as above.
                unsafe { S::mul_add(a, b, sums) }
            }
        }
    )*};
}
float32_factor!(f32, Widened);

impl<S: Simd> Factor<S> for bf16 {
    const STEP: usize = S::BF16_LANES;
    type Vector = S::Bf16;

    #[inline(always)]
    unsafe fn none() -> S::Bf16 {
        // SAFETY: the caller's promise; no number is read.
        unsafe { S::load_bf16_part(std::ptr::dangling(), 0) }
    }
    #[inline(always)]
    unsafe fn load(from: *const bf16) -> S::Bf16 {
        // SAFETY: as above.
        unsafe { S::load_bf16(from) }
    }
    #[inline(always)]
    unsafe fn load_part(from: *const bf16, count: usize) -> S::Bf16 {
        // SAFETY: as above.
        unsafe { S::load_bf16_part(from, count) }
    }
    #[inline(always)]
    unsafe fn dot(a: S::Bf16, b: S::Bf16, sums: S::F32) -> S::F32 {
        // SAFETY: as above.
        unsafe { S::bf16_dot(a, b, sums) }
    }
}

/// Adds the products of all inputs with some rows of weights to the output.
///
/// # Safety
/// `operands` describes memory of these shapes, `rows` lies within it, and nobody else writes these
/// columns of the output.
#[inline(always)]
pub(super) unsafe fn product<S: Simd, T: Factor<S>>(operands: &Operands<T>, rows: Range<usize>) {
    // SAFETY: the caller's promise; the tiles are as many as fit in the registers of `S`.
    unsafe {
        match (operands.m, S::TILE) {
            // For few inputs, more rows of weights: enough sums that additions need not wait for each other.
            (1, _) => blocks::<S, T, 1, 8>(operands, rows),
            (2, (4, _)) => blocks::<S, T, 2, 8>(operands, rows),
            (3, (4, _)) => blocks::<S, T, 3, 8>(operands, rows),
            (_, (4, 6)) => blocks::<S, T, 4, 6>(operands, rows),
            (_, (3, 4)) => blocks::<S, T, 3, 4>(operands, rows),
            _ => blocks::<S, T, 2, 2>(operands, rows),
        }
    }
}

/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn blocks<S: Simd, T: Factor<S>, const M: usize, const N: usize>(operands: &Operands<T>, rows: Range<usize>) {
    for m in (0..operands.m).step_by(INPUT_BLOCK) {
        let inputs = m..operands.m.min(m + INPUT_BLOCK);
        for k in (0..operands.k).step_by(K_BLOCK) {
            let columns = k..operands.k.min(k + K_BLOCK);
            let mut n = rows.start;
            // SAFETY: the caller's promise; `n` and the rows after it are in `rows`.
            unsafe {
                while n + N <= rows.end {
                    strip::<S, T, M, N>(operands, inputs.clone(), n, columns.clone());
                    n += N;
                }
                while n < rows.end {
                    strip::<S, T, M, 1>(operands, inputs.clone(), n, columns.clone());
                    n += 1;
                }
            }
        }
    }
}

/// `N` rows of weights with all of `inputs`.
///
/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn strip<S: Simd, T: Factor<S>, const M: usize, const N: usize>(
    operands: &Operands<T>,
    inputs: Range<usize>,
    n: usize,
    columns: Range<usize>,
) {
    let Operands { weights, x, x_stride, k, out, out_stride, .. } = *operands;
    // SAFETY: the caller's promise: these rows and columns exist.
    unsafe {
        let strip = Strip {
            weights: weights.add(n * k + columns.start),
            weights_stride: k,
            x: x.add(columns.start),
            x_stride,
            len: columns.len(),
            out: out.add(n),
            out_stride,
        };
        tiles::<S, T, M, N>(&strip, inputs);
    }
}

/// Some rows of weights, and the inputs and outputs that belong to them.
pub(super) struct Strip<T> {
    pub weights: *const T,
    pub weights_stride: usize,
    /// The first row of inputs.
    pub x: *const T,
    pub x_stride: usize,
    /// Numbers of each row that are multiplied.
    pub len: usize,
    /// The output of the first input with the first row of weights.
    pub out: *mut f32,
    pub out_stride: usize,
}

/// `N` rows of weights with all of `inputs`, `M` at a time.
///
/// # Safety
/// `strip` describes memory with these rows, and nobody else writes this part of the output.
#[inline(always)]
pub(super) unsafe fn tiles<S: Simd, T: Factor<S>, const M: usize, const N: usize>(
    strip: &Strip<T>,
    inputs: Range<usize>,
) {
    let mut m = inputs.start;
    // SAFETY: the caller's promise.
    unsafe {
        while m + M <= inputs.end {
            tile::<S, T, M, N>(strip, m);
            m += M;
        }
        match inputs.end - m {
            3 => tile::<S, T, 3, N>(strip, m),
            2 => tile::<S, T, 2, N>(strip, m),
            1 => tile::<S, T, 1, N>(strip, m),
            _ => (),
        }
    }
}

/// `M` rows of inputs from `m` on with `N` rows of weights.
///
/// # Safety
/// As [`tiles`].
#[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
#[inline(always)]
unsafe fn tile<S: Simd, T: Factor<S>, const M: usize, const N: usize>(strip: &Strip<T>, m: usize) {
    let Strip { weights, weights_stride, x_stride, len, out_stride, .. } = *strip;
    // SAFETY: the caller's promise.
    unsafe {
        let x = strip.x.add(m * x_stride);
        let whole = len - len % T::STEP;
        let mut sums = [[S::zero(); N]; M];
        let mut inputs = [T::none(); M];
        let mut at = 0;
        while at < whole {
            for i in 0..M {
                inputs[i] = T::load(x.add(i * x_stride + at));
            }
            for j in 0..N {
                let weight = T::load(weights.add(j * weights_stride + at));
                if M <= FEW {
                    S::prefetch(weights.wrapping_add((j + N) * weights_stride + at));
                }
                for i in 0..M {
                    sums[i][j] = T::dot(weight, inputs[i], sums[i][j]);
                }
            }
            at += T::STEP;
        }
        if whole < len {
            for i in 0..M {
                inputs[i] = T::load_part(x.add(i * x_stride + whole), len - whole);
            }
            for j in 0..N {
                let weight = T::load_part(weights.add(j * weights_stride + whole), len - whole);
                for i in 0..M {
                    sums[i][j] = T::dot(weight, inputs[i], sums[i][j]);
                }
            }
        }
        add_sums::<S, M, N>(&sums, strip.out.add(m * out_stride), out_stride);
    }
}

/// Adds the sum of each vector's lanes to its output.
///
/// # Safety
/// `out` has `M` rows of `N`, `out_stride` apart, which nobody else writes.
#[inline(always)]
pub(super) unsafe fn add_sums<S: Simd, const M: usize, const N: usize>(
    sums: &[[S::F32; N]; M],
    out: *mut f32,
    out_stride: usize,
) {
    for (i, sums) in sums.iter().enumerate() {
        for first in (0..N).step_by(4) {
            // SAFETY: the caller's promise; only outputs below `N` are written.
            unsafe {
                let at = |j: usize| if j < N { sums[j] } else { S::zero() };
                let four = S::sums([at(first), at(first + 1), at(first + 2), at(first + 3)]);
                let out = out.add(i * out_stride + first);
                for (j, sum) in four.iter().enumerate().take(N - first) {
                    *out.add(j) += sum;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "matmul_tests.rs"]
mod tests;
