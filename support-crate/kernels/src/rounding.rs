//! Float32 to the nearest number of a smaller format, one at a time.

use half::bf16;

/// The nearest bfloat16, ties to even, in a form that compilers turn into vector code.
#[inline(always)]
pub fn nearest_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
    // Rounding up must not turn a NaN into an infinity.
    let bits = if x.is_nan() { (bits >> 16) | 0x40 } else { nearest };
    bf16::from_bits(bits as u16)
}

/// The smallest magnitude that float16 represents with all 11 bits of precision.
const SMALLEST_NORMAL_F16: f32 = 6.103_515_6e-5;

/// The nearest number that float16 has, ties to even, in a form that compilers turn into vector code.
#[inline(always)]
pub fn nearest_f16(x: f32) -> f32 {
    /// From this magnitude on, the nearest float16 is infinite.
    const TOO_LARGE: f32 = 65_520.0;
    let bits = x.to_bits();
    let nearest = f32::from_bits(bits.wrapping_add(0xFFF + ((bits >> 13) & 1)) & !0x1FFF);
    // Below, numbers lie 2^-24 apart, as float32 does from 0.5 to 1: adding rounds.
    let subnormal = (x.abs() + 0.5 - 0.5).copysign(x);
    let infinite = f32::INFINITY.copysign(x);
    let finite = if x.abs() < SMALLEST_NORMAL_F16 { subnormal } else { nearest };
    if x.is_nan() {
        x
    } else if x.abs() >= TOO_LARGE {
        infinite
    } else {
        finite
    }
}

/// The bits of a number that float16 represents exactly, in a form that compilers turn into vector code.
#[inline(always)]
pub fn f16_bits(x: f32) -> u16 {
    let (size, sign) = (x.abs().to_bits(), x.to_bits() >> 16 & 0x8000);
    // The exponent bias is 112 less; below the normal numbers, numbers are multiples of 2^-24, as float32 is from 0.5
    // on.
    let normal = (size >> 13).wrapping_sub(112 << 10);
    let subnormal = (x.abs() + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let finite = if size < SMALLEST_NORMAL_F16.to_bits() { subnormal } else { normal };
    let special = if x.is_nan() { 0x7E00 } else { 0x7C00 };
    (sign | if size >= f32::INFINITY.to_bits() { special } else { finite }) as u16
}

/// The largest int8 in use; -128 is not, so that the numbers lie evenly around 0.
pub const LARGEST: f32 = 127.0;

/// 1 / 127, as bitsandbytes writes it.
pub const PER_STEP: f32 = 0.007874016;

/// What a product of two bytes with absolute maxima of 1 stands for. 1 / 127^2 is 6.200012e-5; this is what
/// bitsandbytes writes (`int8_mm_dequant` in `backends/default/ops.py`), 0.002 % more. With the exact number, outputs
/// would round to different bytes in the next layer than they do there.
pub const PER_PRODUCT: f32 = 6.200124e-5;

/// What numbers are multiplied by so that `largest` becomes 127; 0 where that cannot be computed, because `largest` is
/// (almost) 0.
///
/// Not 127 / `largest`: torch divides a number by a tensor in two steps, and with a single rounding some numbers would
/// be off by one.
#[inline]
pub fn int8_factor(largest: f32) -> f32 {
    let factor = 1.0 / largest * LARGEST;
    if factor.is_finite() { factor } else { 0.0 }
}

/// 1.5 * 2^23. From 2^23 to 2^24, the float32 numbers are exactly the integers, so adding this rounds, ties to even.
pub const INTEGERS: f32 = 12_582_912.0;

/// The nearest integer, ties to even; `value` lies between -127.5 and 127.5. For NaN, the result is unspecified.
#[inline(always)]
pub fn round_to_int8(value: f32) -> i8 {
    // One instruction everywhere; the integer is then in the lowest bits of the sum.
    (value + INTEGERS).to_bits() as i8
}
