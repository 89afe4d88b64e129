//! [`Decoded`] for ARM64 processors.

use std::arch::aarch64::*;

use half::bf16;

use super::decode::Decoded;
use crate::simd::{Neon, NeonBf16, Simd};

impl Decoded<Neon> for f32 {
    /// The bytes of 16 numbers.
    type Table = uint8x16x4_t;

    #[inline(always)]
    fn table(_: Neon, code: &[f32; 16], [scale, _]: [f32; 2], [minimum, _]: [f32; 2]) -> uint8x16x4_t {
        // SAFETY: the value of the instruction set proves that it is there; four vectors lie in `code`.
        unsafe {
            let minimum = vdupq_n_f32(minimum);
            let numbers = |start: usize| vfmaq_n_f32(minimum, vld1q_f32(code.as_ptr().add(start)), scale);
            let bytes = |start: usize| vreinterpretq_u8_f32(numbers(start));
            uint8x16x4_t(bytes(0), bytes(4), bytes(8), bytes(12))
        }
    }
    #[inline(always)]
    unsafe fn decode(_: Neon, table: uint8x16x4_t, group: *const u8, pair: usize) -> (float32x4_t, float32x4_t) {
        // SAFETY: the value of the instruction set proves that it is there; the caller can read the group's bytes.
        unsafe {
            let bytes = vreinterpretq_u8_u32(vdupq_n_u32(group.add(pair / 2).cast::<u32>().read_unaligned()));
            let lower = vandq_u8(bytes, vdupq_n_u8(15));
            (lookup(table, vshrq_n_u8::<4>(bytes)), lookup(table, lower))
        }
    }
}

/// The numbers at the first 4 indices.
#[target_feature(enable = "neon")]
#[inline]
fn lookup(table: uint8x16x4_t, indices: uint8x16_t) -> float32x4_t {
    // Index i is that of bytes 4i to 4i + 3.
    let four_times = vqtbl1q_u8(vshlq_n_u8::<2>(indices), bytes([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]));
    let each_byte = vorrq_u8(four_times, bytes([0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]));
    vreinterpretq_f32_u8(vqtbl4q_u8(table, each_byte))
}

#[target_feature(enable = "neon")]
#[inline]
fn bytes(values: [u8; 16]) -> uint8x16_t {
    // SAFETY: there are 16.
    unsafe { vld1q_u8(values.as_ptr()) }
}

impl Decoded<NeonBf16> for bf16 {
    /// The lower and the upper bytes of 16 numbers.
    type Table = uint8x16x2_t;

    #[inline(always)]
    fn table(simd: NeonBf16, code: &[f32; 16], [scale, _]: [f32; 2], [minimum, _]: [f32; 2]) -> uint8x16x2_t {
        // SAFETY: the value of the instruction set proves that it is there; four vectors lie in `code`.
        unsafe {
            let minimum = vdupq_n_f32(minimum);
            let rounded = |start: usize| {
                let numbers = vfmaq_n_f32(minimum, vld1q_f32(code.as_ptr().add(start)), scale);
                vreinterpretq_u16_f32(simd.nearest_bf16(numbers))
            };
            // The upper halves of float32 numbers; that of a NaN is a NaN too, because a product is never a signalling
            // NaN.
            let (first, second) = (vuzp2q_u16(rounded(0), rounded(4)), vuzp2q_u16(rounded(8), rounded(12)));
            let (first, second) = (vreinterpretq_u8_u16(first), vreinterpretq_u8_u16(second));
            uint8x16x2_t(vuzp1q_u8(first, second), vuzp2q_u8(first, second))
        }
    }
    #[inline(always)]
    unsafe fn decode(_: NeonBf16, table: uint8x16x2_t, group: *const u8, pair: usize) -> (uint16x8_t, uint16x8_t) {
        // SAFETY: the value of the instruction set proves that it is there; the caller can read the group's bytes.
        unsafe {
            let bytes = vld1_u8(group.add(pair / 2));
            let indices = vcombine_u8(vshr_n_u8::<4>(bytes), vand_u8(bytes, vdup_n_u8(15)));
            let (lower, upper) = (vqtbl1q_u8(table.0, indices), vqtbl1q_u8(table.1, indices));
            (vreinterpretq_u16_u8(vzip1q_u8(lower, upper)), vreinterpretq_u16_u8(vzip2q_u8(lower, upper)))
        }
    }
}
