//! HQQ's zero points.

use super::grid::{Grid, LANES, nearest_integer, step};
use crate::error::Result;

/// The norm's exponent.
const P: f32 = 0.7;

/// How much a deviation costs that the zero point is not held responsible for, at first, and how much more each time.
const BETA: f32 = 10.0;
const KAPPA: f32 = 1.01;

const ITERATIONS: usize = 20;

/// Steps between the smallest and the largest weight, and the zero point that half-quadratic splitting finds for them:
/// in turn, it takes the largest errors for outliers, of which a norm with an exponent of 0.7 allows a few, and moves
/// the zero point to the mean of where it would leave no other error. It ends where the mean error no longer falls.
///
/// Source: `optimize_weights_proximal_v2` in `core/optimize.py` of the package `hqq` 0.2.8 with its defaults, but for a
/// group by itself. What the package runs unless told otherwise, `optimize_weights_proximal_legacy`, has the zero point
/// of its last step rather than of its best, and the same [`BETA`] each time. With either, all groups of a matrix end
/// together, no step is below 5e-5, and weights that are at most 1e-4 apart have a step of 1 (`Quantizer.quantize`).
pub(super) fn fit(weights: &[f32], last: f32) -> Result<Grid> {
    let low = weights.iter().copied().fold(f32::INFINITY, f32::min);
    let high = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let step = step(low, high, last)?;
    let (mut beta, mut least) = (BETA, f32::INFINITY);
    let mut best = Grid { step, zero: -low / step, last };
    let mut next = best;
    for _ in 0..ITERATIONS {
        let (error, zero) = improved(&next, weights, beta);
        if error >= least || error.is_nan() {
            break;
        }
        (least, best) = (error, next);
        next.zero = zero;
        beta *= KAPPA;
    }
    Ok(best)
}

/// The nearest code: the zero point is no whole number.
#[inline(always)]
pub(in crate::quant) fn code(grid: &Grid, weight: f32) -> f32 {
    nearest_integer(weight * (1.0 / grid.step) + grid.zero).clamp(0.0, grid.last)
}

/// The sum of all errors, and the next zero point.
fn improved(grid: &Grid, weights: &[f32], beta: f32) -> (f32, f32) {
    let inverse = 1.0 / grid.step;
    // Errors up to this are none of an outlier: it is 0.17 at first, more than most weights.
    let outlier = beta.powf(-1.0 / (2.0 - P));
    let (mut errors, mut zeros) = ([0.0; LANES], [0.0; LANES]);
    for some in weights.chunks(LANES) {
        let mut largest = 0.0_f32;
        for ((error, zero), &weight) in errors.iter_mut().zip(&mut zeros).zip(some) {
            let code = code(grid, weight);
            let off = (weight - grid.number(code)).abs();
            largest = if off > largest { off } else { largest };
            *error += off;
            *zero += code - weight * inverse;
        }
        if largest > outlier {
            for (zero, &weight) in zeros.iter_mut().zip(some) {
                let off = weight - grid.number(code(grid, weight));
                if off.abs() > outlier {
                    *zero += (off.abs() - off.abs().powf(P - 1.0) / beta).max(0.0).copysign(off) * inverse;
                }
            }
        }
    }
    (errors.iter().sum(), zeros.iter().sum::<f32>() / weights.len() as f32)
}
