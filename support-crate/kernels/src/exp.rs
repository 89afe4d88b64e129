//! The exponential function, as vector code.

use crate::rounding::INTEGERS;
use crate::simd::Simd;

/// `e^x` to within two units in the last place, in a form that compilers turn into vector code.
///
/// `e^x = 2^n * e^r` with `|r| <= ln(2) / 2`; `e^r` is a polynomial. Adding 1.5 * 2^23 rounds `x / ln(2)`
/// to the integer `n` and leaves `n` in the lowest bits.
///
/// Source: Moshier, Cephes Mathematical Library, `expf.c`.
#[inline(always)]
pub fn exp<S: Simd>(x: f32) -> f32 {
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    const TERMS: [f32; 6] = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_66, 0.5];
    // Beyond these, the result would not be a normal number. (Activations of less than -1e37 are therefore
    // not 0, as they should be.)
    let x = x.clamp(-87.3, 88.3);
    let shifted = multiply_add::<S>(x, std::f32::consts::LOG2_E, INTEGERS);
    let n = shifted - INTEGERS;
    let r = multiply_add::<S>(n, -LN_2_LOW, multiply_add::<S>(n, -LN_2_HIGH, x));
    let mut sum = TERMS[0];
    for term in &TERMS[1..] {
        sum = multiply_add::<S>(sum, r, *term);
    }
    let e_to_r = multiply_add::<S>(sum * r, r, r) + 1.0;
    let two_to_n = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    e_to_r * two_to_n
}

/// `a * b + c`, in one instruction where there is one.
#[inline(always)]
pub fn multiply_add<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
    if S::FMA { a.mul_add(b, c) } else { a * b + c }
}
