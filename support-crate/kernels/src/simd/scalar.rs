//! One number at a time, on any processor: what the other instruction sets are tested against.

use half::bf16;

use super::{Kernel, Simd};
use crate::elementwise::nearest_bf16;

/// One number at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scalar;

// SAFETY: there are no instructions to prove.
unsafe impl Simd for Scalar {
    #[inline(always)]
    fn vectorize<K: Kernel<Self>>(self, kernel: K) {
        kernel.run(self);
    }

    const FMA: bool = false;
    const TILE: (usize, usize) = (2, 2);

    type F32 = f32;
    const LANES: usize = 1;
    #[inline(always)]
    fn splat(self, value: f32) -> f32 {
        value
    }
    #[inline(always)]
    fn multiply(self, a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn mul_add(self, a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
    #[inline(always)]
    fn nearest_bf16(self, value: f32) -> f32 {
        nearest_bf16(value).to_f32()
    }
    #[inline(always)]
    fn sums(self, values: [f32; 4]) -> [f32; 4] {
        values
    }
    #[inline(always)]
    fn first(self, value: f32) -> f32 {
        value
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> f32 {
        // SAFETY: the caller can read one number.
        unsafe { *from }
    }
    #[inline(always)]
    unsafe fn load_part(self, _: *const f32, _: usize) -> f32 {
        0.0
    }
    #[inline(always)]
    unsafe fn store(self, value: f32, to: *mut f32) {
        // SAFETY: the caller can write one number.
        unsafe { *to = value }
    }
    #[inline(always)]
    unsafe fn store_part(self, _: f32, _: *mut f32, _: usize) {}

    type Bf16 = f32;
    const BF16_LANES: usize = 1;
    #[inline(always)]
    fn bf16_dot(self, a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const bf16) -> f32 {
        // SAFETY: the caller can read one number.
        unsafe { (*from).to_f32() }
    }
    #[inline(always)]
    unsafe fn load_bf16_part(self, _: *const bf16, _: usize) -> f32 {
        0.0
    }

    type Bytes = i32;
    const BYTES: usize = 1;
    const UNSIGNED: bool = false;
    type I32 = i32;
    #[inline(always)]
    fn zero_i32(self) -> i32 {
        0
    }
    #[inline(always)]
    fn byte_dot(self, a: i32, b: i32, c: i32) -> i32 {
        c.wrapping_add(a * b)
    }
    #[inline(always)]
    fn sums_i32(self, values: [i32; 4]) -> [i32; 4] {
        values
    }
    #[inline(always)]
    unsafe fn load_bytes(self, from: *const i8) -> i32 {
        // SAFETY: the caller can read one byte.
        i32::from(unsafe { *from })
    }
    #[inline(always)]
    unsafe fn load_bytes_part(self, _: *const i8, _: usize) -> i32 {
        0
    }
}
