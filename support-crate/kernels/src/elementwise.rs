//! Operations on numbers one by one, or row by row: activations, norms, rotary positions, rounding.
//!
//! Each is one plain loop that the compiler turns into vector code of whatever width the instruction set has, but for the
//! exact gelu, which calls `erf` for one number after the other; the order of additions is the same for every width.

use std::f64::consts::FRAC_1_SQRT_2;

use half::{bf16, f16};

use crate::exp::{exp, multiply_add};
use crate::isa::Isa;
use crate::rounding::{f16_bits, nearest_bf16, nearest_f16, round_to_int8};
use crate::simd::{Dispatch, Kernel, Simd};
use crate::sizes;

/// The activation function inside a feed-forward block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// The approximation with tanh that GPT-2 was trained with: `gelu_new`, `gelu_pytorch_tanh`.
    GeluNew,
    /// The exact function: `gelu`.
    Gelu,
    /// `relu`.
    Relu,
    /// `silu`, also called `swish`.
    Silu,
}

/// Defines a function whose loop is compiled for each instruction set, as a [`Kernel`] over `S`. It takes the
/// instruction set as its first argument; a `pub` function, which is named first, uses the best one.
macro_rules! kernel {
    ($(#[$doc:meta])* pub fn $name:ident, $with:ident<$S:ident>($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        pub fn $name<'a>($($arg: $ty),*) {
            $with(Isa::best(), $($arg),*);
        }
        kernel! { fn $with<$S>($($arg: $ty),*) $body }
    };
    ($(#[$doc:meta])* fn $with:ident<$S:ident>($($arg:ident: $ty:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        pub(crate) fn $with<'a>(isa: Isa, $($arg: $ty),*) {
            struct Arguments<'a> {
                $($arg: $ty),*
            }
            impl<$S: Simd> Kernel<$S> for Arguments<'_> {
                #[inline(always)]
                fn run(self, _: $S) {
                    let Self { $($arg),* } = self;
                    $body
                }
            }
            isa.dispatch(Arguments { $($arg),* });
        }
    };
}

/// Applies an activation function in place.
pub fn activate(x: &mut [f32], function: Activation) {
    activate_with(Isa::best(), x, function);
}

/// As [`activate`], with an instruction set.
pub(crate) fn activate_with(isa: Isa, x: &mut [f32], function: Activation) {
    match function {
        Activation::GeluNew => gelu_new(isa, x),
        Activation::Silu => silu(isa, x),
        Activation::Relu => x.iter_mut().for_each(|x| *x = if *x < 0.0 { 0.0 } else { *x }),
        Activation::Gelu => {
            let gelu = |x: f64| x / 2.0 * (1.0 + libm::erf(x * FRAC_1_SQRT_2));
            x.iter_mut().for_each(|x| *x = gelu(f64::from(*x)) as f32);
        }
    }
}

kernel! {
    /// `x[i] / (1 + exp(-2u))` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`, which is the same as the usual
    /// `x / 2 * (1 + tanh(u))`.
    ///
    /// Source: Hendrycks and Gimpel 2016, arXiv:1606.08415; `gelu_new` in transformers.
    fn gelu_new<S>(x: &'a mut [f32]) {
        const MINUS_TWO_SQRT_TWO_OVER_PI: f32 = -1.595_769_2;
        for x in x {
            let u = *x * multiply_add::<S>(0.044_715 * *x, *x, 1.0);
            *x /= 1.0 + exp::<S>(MINUS_TWO_SQRT_TWO_OVER_PI * u);
        }
    }
}

kernel! {
    /// `x / (1 + exp(-x))`.
    fn silu<S>(x: &'a mut [f32]) {
        for x in x {
            *x /= 1.0 + exp::<S>(-*x);
        }
    }
}

kernel! {
    /// Bends numbers towards a largest magnitude that they do not exceed: `cap * tanh(x / cap)`.
    ///
    /// Source: Gemma Team 2024, arXiv:2408.00118.
    pub fn soft_cap, soft_cap_with<S>(x: &'a mut [f32], cap: f32) {
        soft_cap_of::<S>(x, 1.0, cap);
    }
}

/// `cap * tanh(x * scale / cap)`, by `tanh(u) = 1 - 2 / (1 + exp(2 u))`, whose error is that of float32 beside the cap; and
/// for numbers that are small beside it, by `tanh(u) = u - u^3 / 3`.
#[inline(always)]
pub(crate) fn soft_cap_of<S: Simd>(x: &mut [f32], scale: f32, cap: f32) {
    let factor = 2.0 * scale / cap;
    for x in x {
        let twice = *x * factor;
        let small = *x * scale * (1.0 - twice * twice / 12.0);
        let large = cap - 2.0 * cap / (1.0 + exp::<S>(twice));
        *x = if twice.abs() < 0.02 { small } else { large };
    }
}

/// The width of the rows of `x` and `out`, which is the length of `scale`.
fn check_rows(x: &[f32], scale: &[f32], out: &[f32]) -> usize {
    let width = scale.len();
    assert!(width > 0 && x.len().is_multiple_of(width), "inputs: {}, not whole rows of {width}", x.len());
    sizes::check("outputs", out.len(), &[x.len()]);
    width
}

kernel! {
    /// Normalises each row of `x` (rows, C) to mean 0 and variance 1, then scales and shifts it by
    /// `scale` and `shift` (C), into `out` (rows, C).
    ///
    /// Source: Ba, Kiros and Hinton 2016, arXiv:1607.06450.
    ///
    /// # Panics
    /// Rows of no numbers, or slices whose lengths contradict these shapes.
    pub fn layer_norm, layer_norm_with<S>(
        x: &'a [f32],
        scale: &'a [f32],
        shift: &'a [f32],
        epsilon: f32,
        out: &'a mut [f32],
    ) {
        let width = check_rows(x, scale, out);
        sizes::check("shifts", shift.len(), &[width]);
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let mean = lane_sum(x, |value| value) / width as f32;
            let variance = lane_sum(x, |value| (value - mean) * (value - mean)) / width as f32;
            let factor = 1.0 / (variance + epsilon).sqrt();
            for (((out, x), scale), shift) in out.iter_mut().zip(x).zip(scale).zip(shift) {
                *out = multiply_add::<S>((x - mean) * factor, *scale, *shift);
            }
        }
    }
}

kernel! {
    /// Divides each row of `x` (rows, C) by the root of its mean square, then scales it by `scale + offset` (C), into
    /// `out` (rows, C). Models whose scales are stored less 1 have an offset of 1, others of 0.
    ///
    /// Source: Zhang and Sennrich 2019, arXiv:1910.07467.
    ///
    /// # Panics
    /// As [`layer_norm`].
    pub fn rms_norm, rms_norm_with<S>(
        x: &'a [f32],
        scale: &'a [f32],
        offset: f32,
        epsilon: f32,
        out: &'a mut [f32],
    ) {
        let width = check_rows(x, scale, out);
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let mean_square = lane_sum(x, |value| value * value) / width as f32;
            let factor = 1.0 / (mean_square + epsilon).sqrt();
            for ((out, x), scale) in out.iter_mut().zip(x).zip(scale) {
                *out = x * factor * (scale + offset);
            }
        }
    }
}

kernel! {
    /// `gate[i] *= up[i]`
    ///
    /// Source: Shazeer 2020, arXiv:2002.05202 (SwiGLU).
    ///
    /// # Panics
    /// Slices of different lengths.
    pub fn multiply, multiply_with<S>(gate: &'a mut [f32], up: &'a [f32]) {
        sizes::check("factors", up.len(), &[gate.len()]);
        for (gate, up) in gate.iter_mut().zip(up) {
            *gate *= up;
        }
    }
}

kernel! {
    /// Rotates the pairs (i, i + D/2) of a head's D numbers by the angles whose cosines and sines (D/2) are given.
    ///
    /// Source: Su et al. 2021, arXiv:2104.09864; `apply_rotary_pos_emb` in transformers.
    ///
    /// # Panics
    /// Slices whose lengths contradict these sizes.
    pub fn rotate, rotate_with<S>(head: &'a mut [f32], cos: &'a [f32], sin: &'a [f32]) {
        sizes::check("sines", sin.len(), &[cos.len()]);
        sizes::check("head", head.len(), &[2, cos.len()]);
        let (first, second) = head.split_at_mut(cos.len());
        for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
    }
}

kernel! {
    /// Rounds float32 to the nearest bfloat16, ties to even.
    fn round_to_bf16<S>(x: &'a [f32], out: &'a mut [bf16]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = nearest_bf16(*x);
        }
    }
}

kernel! {
    /// Rounds to the nearest float16, ties to even, and stores the result as float32.
    ///
    /// # Panics
    /// Slices of different lengths.
    pub fn round_to_f16, round_to_f16_with<S>(x: &'a [f32], out: &'a mut [f32]) {
        sizes::check("outputs", out.len(), &[x.len()]);
        for (out, x) in out.iter_mut().zip(x) {
            *out = nearest_f16(*x);
        }
    }
}

kernel! {
    /// Rounds float32 to the nearest float16, ties to even.
    ///
    /// # Panics
    /// Slices of different lengths.
    pub fn to_f16, to_f16_with<S>(x: &'a [f32], out: &'a mut [f16]) {
        sizes::check("outputs", out.len(), &[x.len()]);
        for (out, x) in out.iter_mut().zip(x) {
            *out = f16::from_bits(f16_bits(nearest_f16(*x)));
        }
    }
}

kernel! {
    /// Rounds `x * factor` to the nearest integer, ties to even, clamped to a magnitude of at most 127; NaN gives an
    /// unspecified integer.
    fn to_bytes<S>(x: &'a [f32], factor: f32, out: &'a mut [i8]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = round_to_int8((x * factor).clamp(-127.0, 127.0));
        }
    }
}

/// Rounds `x[i] * factors[i]` to the nearest integer, ties to even, clamped to a magnitude of at most 127. Returns whether
/// all of `x` are finite; those that are not give unspecified integers.
pub fn to_bytes_by(isa: Isa, x: &[f32], factors: &[f32], out: &mut [i8]) -> bool {
    let mut largest = 0;
    to_bytes_by_columns(isa, x, factors, out, &mut largest);
    largest < f32::INFINITY.to_bits().cast_signed()
}

kernel! {
    /// As [`to_bytes_by`], and also yields the bits of the largest absolute value; infinity and NaN rank above all
    /// numbers.
    fn to_bytes_by_columns<S>(
        x: &'a [f32],
        factors: &'a [f32],
        out: &'a mut [i8],
        largest: &'a mut i32,
    ) {
        let mut bits = 0;
        for ((out, x), factor) in out.iter_mut().zip(x).zip(factors) {
            *out = round_to_int8((x * factor).clamp(-127.0, 127.0));
            bits = bits.max(x.abs().to_bits().cast_signed());
        }
        *largest = bits;
    }
}

/// What the negative ones add up to.
pub fn sum_of_negatives(isa: Isa, x: &[i8]) -> i32 {
    let mut sum = 0;
    add_negatives(isa, x, &mut sum);
    sum
}

kernel! {
    /// As [`sum_of_negatives`], added to `sum`.
    fn add_negatives<S>(x: &'a [i8], sum: &'a mut i32) {
        *sum += x.iter().map(|&x| i32::from(x.min(0))).sum::<i32>();
    }
}

/// The largest absolute value among those of at most `limit`; NaN if any is NaN.
pub fn absmax_up_to(isa: Isa, x: &[f32], limit: f32) -> f32 {
    let mut largest = 0.0;
    absmax(isa, x, limit, &mut largest);
    largest
}

kernel! {
    /// As [`absmax_up_to`], into `out`.
    fn absmax<S>(x: &'a [f32], limit: f32, out: &'a mut f32) {
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
        *out = if nan { f32::NAN } else { largest.iter().copied().fold(0.0, f32::max) };
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

#[cfg(test)]
#[path = "elementwise_tests.rs"]
mod tests;
