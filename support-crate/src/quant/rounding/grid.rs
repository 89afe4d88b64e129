//! The steps that the weights of a group are rounded to.

use half::f16;
use quantlab_kernels::INTEGERS;

use super::{Fit, hqq};
use crate::error::{Error, Result};

/// Numbers that one vector instruction may handle.
pub(super) const LANES: usize = 16;

/// The search for limits tries these parts of the range: 1, 1 - 1/40, ... 9/40. With codes of 2 bits, the best limits of
/// normally distributed weights are about half of the largest; beyond a fifth, nothing is gained with any.
const PARTS: usize = 40;
const TRIED: usize = 32;

/// Codes from 0 to `last`; a code stands for `(code - zero) * step`.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::quant) struct Grid {
    /// A float16 number.
    pub step: f32,
    /// A whole number, unless it is HQQ's.
    pub zero: f32,
    pub last: f32,
}

/// The largest code of so many bits.
///
/// # Errors
/// Bits that there are no codes of.
pub(crate) fn last_code(bits: u32) -> Result<f32> {
    match bits {
        2..=4 => Ok(f32::from((1_u8 << bits) - 1)),
        _ => Err(Error::input(format!("codes cannot have {bits} bits")).hint("they have 2, 3 or 4")),
    }
}

impl Grid {
    /// The grid of a group of finite weights.
    ///
    /// # Errors
    /// A range that has no scale in float16.
    pub fn fit(weights: &[f32], last: f32, fit: Fit) -> Result<Self> {
        match fit {
            Fit::Nearest => {
                let (low, high) = limits(weights);
                Self::between(low, high, last)
            }
            Fit::Clipping => Self::clipping(weights, last),
            Fit::Hqq => hqq::fit(weights, last),
        }
    }

    /// From `low`, which is not above 0, to `high`, which is not below.
    fn between(low: f32, high: f32, last: f32) -> Result<Self> {
        let step = step(low, high, last)?;
        Ok(Self { step, zero: nearest_integer(-low / step).min(last), last })
    }

    /// The grid with the least square error among those from a part of the smallest weight to that part of the largest.
    ///
    /// Source: `Quantizer.find_params` with `mse=True` in `quant.py` of GPTQ, with a power of 2 instead of 2.4 and a
    /// coarser search.
    fn clipping(weights: &[f32], last: f32) -> Result<Self> {
        let (low, high) = limits(weights);
        let mut best = Self::between(low, high, last)?;
        let mut least = best.square_error(weights);
        for tried in 1..TRIED {
            let part = 1.0 - tried as f32 / PARTS as f32;
            let grid = Self::between(part * low, part * high, last)?;
            let error = grid.square_error(weights);
            if error < least {
                (least, best) = (error, grid);
            }
        }
        Ok(best)
    }

    /// The sum of squares of what rounding changes, in a form that compilers turn into vector code.
    fn square_error(&self, weights: &[f32]) -> f32 {
        let mut sums = [0.0; LANES];
        for some in weights.chunks(LANES) {
            for (sum, &weight) in sums.iter_mut().zip(some) {
                let error = self.number(self.code(weight)) - weight;
                *sum += error * error;
            }
        }
        sums.iter().sum()
    }

    /// The nearest code, where the zero point is a whole number.
    #[inline(always)]
    pub fn code(&self, weight: f32) -> f32 {
        (nearest_integer(weight / self.step) + self.zero).clamp(0.0, self.last)
    }

    #[inline(always)]
    pub fn number(&self, code: f32) -> f32 {
        (code - self.zero) * self.step
    }

    /// The step, and what a code of 0 stands for.
    pub fn scales(&self) -> [f32; 2] {
        [self.step, -self.zero * self.step]
    }
}

/// The step of a range, in float16.
///
/// # Errors
/// It is beyond float16.
pub(super) fn step(low: f32, high: f32, last: f32) -> Result<f32> {
    let step = f16::from_f32((high - low) / last).to_f32();
    if !step.is_finite() {
        return Err(Error::input(format!("weights from {low} to {high} have no scale in float16")));
    }
    // For zeros, or almost, any step will do.
    Ok(if step > 0.0 { step } else { 1.0 })
}

/// The smallest and the largest of these numbers and 0, in a form that compilers turn into vector code.
fn limits(numbers: &[f32]) -> (f32, f32) {
    let (mut low, mut high) = ([0.0_f32; LANES], [0.0_f32; LANES]);
    for some in numbers.chunks(LANES) {
        for ((low, high), &number) in low.iter_mut().zip(&mut high).zip(some) {
            *low = if number < *low { number } else { *low };
            *high = if number > *high { number } else { *high };
        }
    }
    (low.into_iter().fold(0.0, f32::min), high.into_iter().fold(0.0, f32::max))
}

/// Rounds ties to even. A quotient of a weight and its group's step is far below 2^22, up to which this is exact; beyond
/// that, all are codes at an end of the range.
#[inline(always)]
pub(super) fn nearest_integer(number: f32) -> f32 {
    number + INTEGERS - INTEGERS
}
