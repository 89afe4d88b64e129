//! Exponentials, and what is made of them: attention's weights, and the likelihood of a token.

use std::ops::Range;

use crate::exp::exp;
use crate::isa::Isa;
use crate::simd::{Dispatch, Kernel, Simd};

/// A masked softmax that is not divided by its sum yet: `exp((score - largest) * scale)` of the keys in `seen` that
/// `mask` allows, 0 of all others. Returns the sum, which does not depend on where keys are that `mask` leaves out.
/// Scores that are NaN stay visible as NaN.
#[inline(always)]
pub fn masked_exp<S: Simd>(_: S, scores: &mut [f32], seen: Range<usize>, scale: f32, mask: Option<&[bool]>) -> f32 {
    // Where nothing is hidden, the same numbers would be added up once more, in the same order.
    let mask = mask.map(|mask| &mask[seen.clone()]).filter(|mask| mask.contains(&false));
    let (before, rest) = scores.split_at_mut(seen.start);
    let (visible, after) = rest.split_at_mut(seen.len());
    before.fill(0.0);
    after.fill(0.0);
    let hide = |scores: &mut [f32], hidden: f32| {
        for (score, allowed) in scores.iter_mut().zip(mask.into_iter().flatten()) {
            *score = if *allowed { *score } else { hidden };
        }
    };
    hide(visible, f32::NEG_INFINITY);
    let largest = largest(visible);
    let mut sums = [0.0_f32; LANES];
    let (blocks, tail) = visible.as_chunks_mut::<LANES>();
    for block in blocks {
        for (score, sum) in block.iter_mut().zip(&mut sums) {
            *score = exp::<S>((*score - largest) * scale);
            *sum += *score;
        }
    }
    for (score, sum) in tail.iter_mut().zip(&mut sums) {
        *score = exp::<S>((*score - largest) * scale);
        *sum += *score;
    }
    if let Some(mask) = mask {
        hide(visible, 0.0);
        // As if those that are left lay side by side.
        sums.fill(0.0);
        let allowed = visible.iter().zip(mask).filter(|(_, allowed)| **allowed);
        allowed.enumerate().for_each(|(index, (score, _))| sums[index % LANES] += score);
    }
    sums.iter().sum()
}

/// `-log softmax(logits)[token]`, without overflow, in nats; NaN if one of the logits is.
///
/// Exponentials are float32; they are added up in double precision.
///
/// # Panics
/// A token beyond the logits.
pub fn negative_log_likelihood(logits: &[f32], token: u32) -> f64 {
    assert!((token as usize) < logits.len(), "token {token} is out of range for {} logits", logits.len());
    negative_log_likelihood_with(Isa::best(), logits, token)
}

fn negative_log_likelihood_with(isa: Isa, logits: &[f32], token: u32) -> f64 {
    let (mut largest, mut sum) = (0.0, 0.0);
    isa.dispatch(SumOfExp { values: logits, largest: &mut largest, sum: &mut sum });
    sum.ln() - (f64::from(logits[token as usize]) - f64::from(largest))
}

/// The largest value, and `sum_i exp(values[i] - largest)`.
struct SumOfExp<'a> {
    values: &'a [f32],
    largest: &'a mut f32,
    sum: &'a mut f64,
}

/// Values that are worked on side by side.
const LANES: usize = 16;

/// Exponentials that are added up in float32 before double precision takes over, for each lane.
const ROUNDS: usize = 64;

impl<S: Simd> Kernel<S> for SumOfExp<'_> {
    #[inline(always)]
    fn run(self, _: S) {
        let largest = largest(self.values);
        let (blocks, tail) = self.values.as_chunks::<LANES>();
        let mut sum: f64 = tail.iter().map(|&value| f64::from(exp::<S>(value - largest))).sum();
        for blocks in blocks.chunks(ROUNDS) {
            let mut lanes = [0.0_f32; LANES];
            for block in blocks {
                for (lane, &value) in lanes.iter_mut().zip(block) {
                    *lane += exp::<S>(value - largest);
                }
            }
            sum += lanes.iter().copied().map(f64::from).sum::<f64>();
        }
        (*self.largest, *self.sum) = (largest, sum);
    }
}

/// The largest value that is not NaN.
#[inline(always)]
fn largest(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let (blocks, tail) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for block in blocks {
        for (lane, &value) in lanes.iter_mut().zip(block) {
            *lane = larger(*lane, value);
        }
    }
    lanes.iter().chain(tail).fold(f32::NEG_INFINITY, |a, &b| larger(a, b))
}

#[cfg(test)]
#[path = "softmax_tests.rs"]
mod tests;
