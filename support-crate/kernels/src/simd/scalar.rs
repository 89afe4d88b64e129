//! One number at a time, on any processor: what the other instruction sets are tested against.

use half::{bf16, f16};

use super::{Enable, Kernel, PanelDots, Simd, intrinsics};
use crate::rounding::nearest_bf16;

/// One number at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scalar;

impl Enable for Scalar {
    #[inline(always)]
    unsafe fn enabled<K: Kernel<Self>>(self, kernel: K) {
        kernel.run(self);
    }
}

// SAFETY: there are no instructions to prove.
unsafe impl Simd for Scalar {
    const FMA: bool = false;
    const TILE: (usize, usize) = (2, 2);

    type F32 = f32;
    const LANES: usize = 1;
    type Bf16 = f32;
    const BF16_LANES: usize = 1;
    type Bytes = i32;
    const BYTES: usize = 1;
    const UNSIGNED: bool = false;
    type I32 = i32;
    intrinsics! {
        fn splat(value: f32) -> f32 = value;
        fn add(a: f32, b: f32) -> f32 = a + b;
        fn mul(a: f32, b: f32) -> f32 = a * b;
        fn mul_add(a: f32, b: f32, c: f32) -> f32 = a * b + c;
        fn nearest_bf16(value: f32) -> f32 = nearest_bf16(value).to_f32();
        fn sums(values: [f32; 4]) -> [f32; 4] = values;
        unsafe fn load(from: *const f32) -> f32 = *from;
        unsafe fn load_part(_: *const f32, _: usize) -> f32 = 0.0;
        unsafe fn load_f16(from: *const f16) -> f32 = (*from).to_f32();
        unsafe fn load_f16_part(_: *const f16, _: usize) -> f32 = 0.0;
        unsafe fn load_i8(from: *const i8) -> f32 = f32::from(*from);
        unsafe fn load_low4(from: *const u8) -> f32 = f32::from(*from & 15);
        unsafe fn load_high4(from: *const u8) -> f32 = f32::from(*from >> 4);
        unsafe fn store(value: f32, to: *mut f32) = *to = value;
        unsafe fn store_part(_: f32, _: *mut f32, _: usize) = ();

        fn bf16_dot(a: f32, b: f32, c: f32) -> f32 = a * b + c;
        unsafe fn load_bf16(from: *const bf16) -> f32 = (*from).to_f32();
        unsafe fn load_bf16_part(_: *const bf16, _: usize) -> f32 = 0.0;

        fn zero_i32() -> i32 = 0;
        fn byte_dot(a: i32, b: i32, c: i32) -> i32 = c.wrapping_add(a * b);
        fn sums_i32(values: [i32; 4]) -> [i32; 4] = values;
        unsafe fn load_bytes(from: *const i8) -> i32 = i32::from(*from);
        unsafe fn load_bytes_part(_: *const i8, _: usize) -> i32 = 0;
        fn to_f32(sums: i32) -> f32 = sums as f32;
    }
}

impl PanelDots for Scalar {
    type Cells = [i32; 4];
    intrinsics! {
        unsafe fn load_codes(from: *const u8) -> [i32; 4] = from.cast::<[u8; 4]>().read().map(i32::from);
        fn split(codes: [i32; 4]) -> ([i32; 4], [i32; 4]) = (codes.map(|code| code & 15), codes.map(|code| code >> 4));
        fn with_upper(codes: [i32; 4], upper: [i32; 4], part: usize) -> [i32; 4] =
            std::array::from_fn(|i| codes[i] | (upper[i] >> (2 * part) & 3) << 4);
        fn splat_i32(value: i32) -> i32 = value;
    }

    #[inline(always)]
    unsafe fn dots<const BITS: usize>(self, codes: [[i32; 4]; 4], inputs: *const i8, c: i32) -> i32 {
        let more = if BITS == 8 { 128 } else { 0 };
        // SAFETY: the caller vouches for the memory.
        let inputs = unsafe { inputs.cast::<[i8; 16]>().read() };
        let products = codes.as_flattened().iter().zip(inputs).map(|(code, input)| (code - more) * i32::from(input));
        products.fold(c, |sum, product| sum + product)
    }
}
