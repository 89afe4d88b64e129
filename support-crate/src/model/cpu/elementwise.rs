//! What happens to numbers one by one, or row by row: activations, norms, rotary positions, softmax.
//!
//! Each is one plain loop that the compiler turns into vector code, compiled twice: for any processor,
//! and for x86 processors with AVX2 and FMA, chosen at run time.

use std::f64::consts::FRAC_1_SQRT_2;
use std::ops::Range;

use candle_core::cpu::erf::erf_f64;
use half::bf16;

pub(in crate::model) use crate::model::config::Activation;
use crate::quant::round_to_int8;

/// Defines a function that runs `$body` as compiled for the processor at hand. `$body` takes a constant
/// that says whether fused multiply-add is an instruction (else it would be a slow call).
macro_rules! kernel {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) = $body:ident) => {
        $(#[$doc])*
        $vis fn $name($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) {
                    $body::<true>($($arg),*)
                }
                if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has both features, as was just asked.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $body::<false>($($arg),*)
        }
    };
}

/// Applies an activation function in place.
pub(in crate::model) fn activate(x: &mut [f32], function: Activation) {
    match function {
        Activation::GeluNew => gelu_new(x),
        Activation::Silu => silu(x),
        Activation::Relu => x.iter_mut().for_each(|x| *x = x.max(0.0)),
        Activation::Gelu => {
            let gelu = |x: f64| x / 2.0 * (1.0 + erf_f64(x * FRAC_1_SQRT_2));
            x.iter_mut().for_each(|x| *x = gelu(f64::from(*x)) as f32);
        }
    }
}

kernel! {
    /// `x[i] / (1 + exp(-2u))` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`, which is the same as the usual
    /// `x / 2 * (1 + tanh(u))`.
    ///
    /// Source: Hendrycks and Gimpel 2016, arXiv:1606.08415; `gelu_new` in transformers.
    fn gelu_new(x: &mut [f32]) = gelu_new_body
}

#[inline(always)]
fn gelu_new_body<const FMA: bool>(x: &mut [f32]) {
    const MINUS_TWO_SQRT_TWO_OVER_PI: f32 = -1.595_769_2;
    for x in x {
        let u = *x * multiply_add::<FMA>(0.044_715 * *x, *x, 1.0);
        *x /= 1.0 + exp::<FMA>(MINUS_TWO_SQRT_TWO_OVER_PI * u);
    }
}

kernel! {
    /// `x / (1 + exp(-x))`.
    fn silu(x: &mut [f32]) = silu_body
}

#[inline(always)]
fn silu_body<const FMA: bool>(x: &mut [f32]) {
    for x in x {
        *x /= 1.0 + exp::<FMA>(-*x);
    }
}

kernel! {
    /// Normalises each row of `x` (rows, C) to mean 0 and variance 1, then scales and shifts it by
    /// `scale` and `shift` (C).
    ///
    /// Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450.
    pub(in crate::model) fn layer_norm(
        x: &[f32],
        scale: &[f32],
        shift: &[f32],
        epsilon: f32,
        out: &mut [f32],
    ) = layer_norm_body
}

#[inline(always)]
fn layer_norm_body<const FMA: bool>(x: &[f32], scale: &[f32], shift: &[f32], epsilon: f32, out: &mut [f32]) {
    let width = scale.len();
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        let mean = lane_sum(x, |value| value) / width as f32;
        let variance = lane_sum(x, |value| (value - mean) * (value - mean)) / width as f32;
        let factor = 1.0 / (variance + epsilon).sqrt();
        for (((out, x), scale), shift) in out.iter_mut().zip(x).zip(scale).zip(shift) {
            *out = multiply_add::<FMA>((x - mean) * factor, *scale, *shift);
        }
    }
}

kernel! {
    /// Divides each row of `x` (rows, C) by the root of its mean square, then scales it by `scale` (C).
    ///
    /// Source: Zhang and Sennrich 2019, arXiv:1910.07467.
    pub(in crate::model) fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32, out: &mut [f32]) = rms_norm_body
}

#[inline(always)]
fn rms_norm_body<const FMA: bool>(x: &[f32], scale: &[f32], epsilon: f32, out: &mut [f32]) {
    let width = scale.len();
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        let mean_square = lane_sum(x, |value| value * value) / width as f32;
        let factor = 1.0 / (mean_square + epsilon).sqrt();
        for ((out, x), scale) in out.iter_mut().zip(x).zip(scale) {
            *out = x * factor * scale;
        }
    }
}

/// Independent sums, enough to keep the adders busy while each waits for its previous addition.
const LANES: usize = 64;

#[inline(always)]
fn lane_sum(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (blocks, tail) = x.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for block in blocks {
        for lane in 0..LANES {
            sums[lane] += term(block[lane]);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + tail.iter().map(|&value| term(value)).sum::<f32>()
}

kernel! {
    /// `gate[i] * up[i]` after `silu` of the gate.
    ///
    /// Source: Shazeer 2020, arXiv:2002.05202 (SwiGLU).
    pub(in crate::model) fn multiply(gate: &mut [f32], up: &[f32]) = multiply_body
}

#[inline(always)]
fn multiply_body<const FMA: bool>(gate: &mut [f32], up: &[f32]) {
    for (gate, up) in gate.iter_mut().zip(up) {
        *gate *= up;
    }
}

kernel! {
    /// Turns the pairs (i, i + D/2) of a head's D numbers by the angles whose cosines and sines are given.
    ///
    /// Source: Su et al. 2021, arXiv:2104.09864; `apply_rotary_pos_emb` in transformers.
    pub(in crate::model) fn rotate(head: &mut [f32], cos: &[f32], sin: &[f32]) = rotate_body
}

#[inline(always)]
fn rotate_body<const FMA: bool>(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let (first, second) = head.split_at_mut(cos.len());
    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}

/// `exp((score - largest) * scale)` of the keys in `seen` that `mask` allows, 0 of all others. Scores that
/// are NaN stay visible as NaN.
#[inline(always)]
pub(super) fn exp_of_visible(scores: &mut [f32], seen: Range<usize>, scale: f32, mask: Option<&[bool]>) {
    let allowed = |key: usize| mask.is_none_or(|mask| mask[key]);
    scores[..seen.start].fill(0.0);
    scores[seen.end..].fill(0.0);
    let visible = &mut scores[seen.clone()];
    if mask.is_some() {
        for (key, score) in seen.clone().zip(visible.iter_mut()) {
            *score = if allowed(key) { *score } else { f32::NEG_INFINITY };
        }
    }
    let largest = visible.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    exp_shifted(visible, scale, largest);
    if mask.is_some() {
        for (key, score) in seen.zip(visible.iter_mut()) {
            *score = if allowed(key) { *score } else { 0.0 };
        }
    }
}

kernel! {
    /// `x[i] = exp((x[i] - largest) * scale)`.
    fn exp_shifted(x: &mut [f32], scale: f32, largest: f32) = exp_shifted_body
}

#[inline(always)]
fn exp_shifted_body<const FMA: bool>(x: &mut [f32], scale: f32, largest: f32) {
    for x in x {
        *x = exp::<FMA>((*x - largest) * scale);
    }
}

kernel! {
    /// Float32 as the nearest bfloat16, ties to even.
    pub(super) fn round(x: &[f32], out: &mut [bf16]) = round_body
}

#[inline(always)]
fn round_body<const FMA: bool>(x: &[f32], out: &mut [bf16]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = nearest(*x);
    }
}

/// The nearest bfloat16, ties to even, in a form that compilers turn into vector code.
#[inline(always)]
pub(super) fn nearest(x: f32) -> bf16 {
    let bits = x.to_bits();
    let nearest = bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16;
    // Rounding up must not turn a NaN into an infinity.
    let bits = if x.is_nan() { (bits >> 16) | 0x40 } else { nearest };
    bf16::from_bits(bits as u16)
}

kernel! {
    /// `x * factor` to the nearest integer, ties to even, at most 127 in size; something for what is no number.
    pub(super) fn to_bytes(x: &[f32], factor: f32, out: &mut [i8]) = to_bytes_body
}

#[inline(always)]
fn to_bytes_body<const FMA: bool>(x: &[f32], factor: f32, out: &mut [i8]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = round_to_int8((x * factor).clamp(-127.0, 127.0));
    }
}

/// `x[i] * factors[i]` to the nearest integer, ties to even, at most 127 in size, and then its bits turned where
/// `flip` has any; whether all are finite. What is not becomes something.
pub(super) fn to_bytes_by(x: &[f32], factors: &[f32], flip: i8, out: &mut [i8]) -> bool {
    let mut largest = [0];
    to_bytes_by_columns(x, factors, flip, out, &mut largest);
    largest[0] < f32::INFINITY.to_bits().cast_signed()
}

kernel! {
    /// As [`to_bytes_by`], with the bits of the largest absolute value: beyond all numbers come infinity and NaN.
    fn to_bytes_by_columns(
        x: &[f32],
        factors: &[f32],
        flip: i8,
        out: &mut [i8],
        largest: &mut [i32; 1],
    ) = to_bytes_by_columns_body
}

#[inline(always)]
fn to_bytes_by_columns_body<const FMA: bool>(
    x: &[f32],
    factors: &[f32],
    flip: i8,
    out: &mut [i8],
    largest: &mut [i32; 1],
) {
    let mut bits = 0;
    for ((out, x), factor) in out.iter_mut().zip(x).zip(factors) {
        *out = round_to_int8((x * factor).clamp(-127.0, 127.0)) ^ flip;
        bits = bits.max(x.abs().to_bits().cast_signed());
    }
    largest[0] = bits;
}

kernel! {
    /// `out[i] += (sums[i] - shift * shifted[i]) * (absmax[i] / 127 * scale)`
    pub(super) fn add_scaled_by(
        sums: &[i32],
        shifted: &[i32],
        shift: i32,
        absmax: &[f32],
        scale: f32,
        out: &mut [f32],
    ) = add_scaled_by_body
}

#[inline(always)]
fn add_scaled_by_body<const FMA: bool>(
    sums: &[i32],
    shifted: &[i32],
    shift: i32,
    absmax: &[f32],
    scale: f32,
    out: &mut [f32],
) {
    for (((out, sum), shifted), absmax) in out.iter_mut().zip(sums).zip(shifted).zip(absmax) {
        // Modulo 2^32, as the sums are: the difference fits.
        *out += sum.wrapping_sub(shift.wrapping_mul(*shifted)) as f32 * (absmax / 127.0 * scale);
    }
}

kernel! {
    /// `out[i] += (sums[i] - shift * shifted[i]) * (absmax[i] * largest) * unit`
    pub(super) fn add_scaled(
        sums: &[i32],
        shifted: &[i32],
        shift: i32,
        absmax: &[f32],
        largest: f32,
        unit: f32,
        out: &mut [f32],
    ) = add_scaled_body
}

#[inline(always)]
fn add_scaled_body<const FMA: bool>(
    sums: &[i32],
    shifted: &[i32],
    shift: i32,
    absmax: &[f32],
    largest: f32,
    unit: f32,
    out: &mut [f32],
) {
    for (((out, sum), shifted), absmax) in out.iter_mut().zip(sums).zip(shifted).zip(absmax) {
        // Modulo 2^32, as the sums are: the difference fits.
        *out += sum.wrapping_sub(shift.wrapping_mul(*shifted)) as f32 * (largest * absmax) * unit;
    }
}

/// The largest absolute value among those of at most `limit`; NaN if any is NaN.
pub(super) fn absmax_up_to(x: &[f32], limit: f32) -> f32 {
    let mut largest = [0.0];
    absmax(x, limit, &mut largest);
    largest[0]
}

kernel! {
    /// As [`absmax_up_to`], into `out`.
    fn absmax(x: &[f32], limit: f32, out: &mut [f32; 1]) = absmax_body
}

#[inline(always)]
fn absmax_body<const FMA: bool>(x: &[f32], limit: f32, out: &mut [f32; 1]) {
    let (blocks, tail) = x.as_chunks::<LANES>();
    let mut largest = [0.0_f32; LANES];
    let mut not_a_number = [false; LANES];
    let mut take = |lane: usize, x: f32| {
        let size = if x.abs() <= limit { x.abs() } else { 0.0 };
        largest[lane] = if size > largest[lane] { size } else { largest[lane] };
        not_a_number[lane] |= x.is_nan();
    };
    for block in blocks {
        block.iter().enumerate().for_each(|(lane, &x)| take(lane, x));
    }
    tail.iter().for_each(|&x| take(0, x));
    let nan = not_a_number.iter().any(|nan| *nan);
    out[0] = if nan { f32::NAN } else { largest.iter().copied().fold(0.0, f32::max) };
}

#[inline(always)]
fn multiply_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `e^x` to within two units in the last place, in a form that compilers turn into vector code.
///
/// `e^x = 2^n * e^r` with `|r| <= ln(2) / 2`; `e^r` is a polynomial. Adding 1.5 * 2^23 rounds `x / ln(2)`
/// to the integer `n` and leaves `n` in the lowest bits.
///
/// Source: Moshier, Cephes Mathematical Library, `expf.c`.
///
/// `FMA` says whether fused multiply-add is an instruction.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    const TERMS: [f32; 6] = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_66, 0.5];
    // Beyond these, the result would not be a normal number. (Activations of less than -1e37 are therefore
    // not 0, as they should be.)
    let x = x.clamp(-87.3, 88.3);
    let shifted = multiply_add::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<FMA>(n, -LN_2_LOW, multiply_add::<FMA>(n, -LN_2_HIGH, x));
    let mut sum = TERMS[0];
    for term in &TERMS[1..] {
        sum = multiply_add::<FMA>(sum, r, *term);
    }
    let e_to_r = multiply_add::<FMA>(sum * r, r, r) + 1.0;
    let two_to_n = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    e_to_r * two_to_n
}

#[cfg(test)]
#[path = "elementwise_tests.rs"]
mod tests;
