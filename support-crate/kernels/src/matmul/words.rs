//! Products of bytes on x86 processors that multiply 16-bit numbers only.

use std::num::Wrapping;
use std::ops::Range;

use super::decoded::{self, DecodeRow};
use super::gemm::{self, Factor, Operands};
use crate::scratch::Scratch;
use crate::simd::Simd;
use crate::strided::Block;

/// From so many rows of inputs on, weights are widened once for all of them and not with each load.
const WIDENED_ONCE: usize = 12;

/// An instruction set whose bytes are multiplied as 16-bit numbers.
///
/// # Safety
/// As [`Simd`].
pub unsafe trait Words: Simd {
    /// # Safety
    /// [`BYTES`](Simd::BYTES) numbers can be read.
    unsafe fn load_words(self, from: *const i16) -> Self::Bytes;
}

/// As [`gemm`](gemm::gemm), to the bit: sums of integers do not depend on their order.
#[inline(always)]
pub fn gemm<S: Words>(simd: S, operands: Operands<'_, i8>, rows: Range<usize>, out: &mut Block<'_, Wrapping<i32>>) {
    let Operands { weights, x, x_stride, m, k } = operands;
    if m < WIDENED_ONCE {
        return gemm::gemm(simd, operands, rows, out);
    }
    let mut words = Scratch::<i16>::any(m * k);
    for (words, x) in words.chunks_exact_mut(k).zip(x.chunks(x_stride)) {
        widen(&x[..k], words);
    }
    decoded::multiply(simd, &words, (m, k), rows, out, &Rows { weights, k });
}

/// Rows of `k` weights.
struct Rows<'a> {
    weights: &'a [i8],
    k: usize,
}

impl<S> DecodeRow<S, i16> for Rows<'_> {
    #[inline(always)]
    fn decode_row(&self, _: S, row: usize, along: Range<usize>, out: &mut [i16]) {
        widen(&self.weights[row * self.k..][along], out);
    }
}

#[inline(always)]
fn widen(bytes: &[i8], words: &mut [i16]) {
    words.iter_mut().zip(bytes).for_each(|(word, byte)| *word = i16::from(*byte));
}

impl<S: Words> Factor<S> for i16 {
    const STEP: usize = S::BYTES;
    type Vector = S::Bytes;
    type Sums = S::I32;
    type Sum = Wrapping<i32>;
    #[inline(always)]
    fn none(simd: S) -> S::Bytes {
        <i8 as Factor<S>>::none(simd)
    }
    #[inline(always)]
    fn no_sums(simd: S) -> S::I32 {
        simd.zero_i32()
    }
    #[inline(always)]
    fn dot(simd: S, a: S::Bytes, b: S::Bytes, sums: S::I32) -> S::I32 {
        simd.byte_dot(a, b, sums)
    }
    #[inline(always)]
    fn reduce(simd: S, sums: [S::I32; 4]) -> [Wrapping<i32>; 4] {
        simd.sums_i32(sums).map(Wrapping)
    }
    #[inline(always)]
    unsafe fn load(simd: S, from: *const i16) -> S::Bytes {
        // SAFETY: the caller's promise is the same.
        unsafe { simd.load_words(from) }
    }
    #[inline(always)]
    unsafe fn load_part(simd: S, from: *const i16, count: usize) -> S::Bytes {
        let mut padded = [0_i16; 32];
        const { assert!(S::BYTES <= 32) };
        // SAFETY: `count` numbers can be read, which is less than 32, and `padded` is a vector.
        unsafe {
            std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), count);
            simd.load_words(padded.as_ptr())
        }
    }
}
