//! 4-bit numbers to vectors of float32 or bfloat16, as each instruction set does it fastest.
//!
//! Two neighbours share a byte, the first in the upper half. A vector of bytes gives one vector of first
//! and one of second numbers: nothing is interleaved, because inputs can be brought into this order once.

use half::bf16;

use super::elementwise::nearest;
use super::matmul::Factor;
use super::simd::{Scalar, Simd};

/// A number format that 4-bit numbers are decoded to, and are multiplied in.
///
/// # Safety
/// As for [`Simd`].
pub(super) trait Decoded<S: Simd>: Factor<S> {
    /// Numbers that are decoded at once.
    const GROUP: usize = 2 * Self::STEP;
    /// What the 16 indices stand for in a group.
    type Table: Copy;

    /// The nearest to `x`.
    fn nearest(x: f32) -> Self;
    /// `code[index] * scale`, for both halves of a group; a group of at most 32 numbers takes the first scale
    /// for all.
    unsafe fn table(code: &[f32; 16], scales: [f32; 2]) -> Self::Table;
    /// The first numbers of a group's bytes, and the second.
    unsafe fn decode(table: Self::Table, from: *const u8) -> (Self::Vector, Self::Vector);
    unsafe fn store(value: Self::Vector, to: *mut Self);
}

impl Decoded<Scalar> for f32 {
    type Table = (*const [f32; 16], f32);

    fn nearest(x: f32) -> f32 {
        x
    }
    #[inline(always)]
    unsafe fn table(code: &[f32; 16], [scale, _]: [f32; 2]) -> Self::Table {
        (code, scale)
    }
    #[inline(always)]
    unsafe fn decode((code, scale): Self::Table, from: *const u8) -> (f32, f32) {
        // SAFETY: the caller's promise; the code lives as long as the table is used.
        let (code, byte) = unsafe { (&*code, usize::from(*from)) };
        (code[byte >> 4] * scale, code[byte & 15] * scale)
    }
    #[inline(always)]
    unsafe fn store(value: f32, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { *to = value }
    }
}

impl Decoded<Scalar> for bf16 {
    type Table = (*const [f32; 16], f32);

    #[inline(always)]
    fn nearest(x: f32) -> bf16 {
        nearest(x)
    }
    #[inline(always)]
    unsafe fn table(code: &[f32; 16], [scale, _]: [f32; 2]) -> Self::Table {
        (code, scale)
    }
    #[inline(always)]
    unsafe fn decode(table: Self::Table, from: *const u8) -> (f32, f32) {
        // SAFETY: the caller's promise.
        let (first, second) = unsafe { <f32 as Decoded<Scalar>>::decode(table, from) };
        (nearest(first).to_f32(), nearest(second).to_f32())
    }
    #[inline(always)]
    unsafe fn store(value: f32, to: *mut bf16) {
        // SAFETY: the caller's promise.
        unsafe { *to = nearest(value) }
    }
}

#[cfg(target_arch = "x86_64")]
#[path = "decode_x86.rs"]
mod x86;
