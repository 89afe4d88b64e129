//! Logits to negative log-likelihoods, for whole batches.
//!
//! A window of GPT-2 has 51 million logits, and each takes an exponential. So these are computed in
//! float32, in a form that compilers turn into vector code, and added up in double precision.

use super::windows::Window;
use crate::model::{Logits, exp, shares};

/// Values that are worked on side by side.
const LANES: usize = 16;

/// Exponentials that are added up in float32 before double precision takes over, for each lane.
const ROUNDS: usize = 64;

/// An exponential, in multiplications.
const WORK: usize = 8;

/// The sum of the negative log-likelihoods of each window's scored tokens, in nats. `logits` (B, T, V)
/// has a row for each window, padded on the right.
pub(super) fn batch_nll(logits: &Logits, windows: &[&Window<'_>]) -> Vec<f64> {
    let targets: Vec<(&[f32], u32)> = windows
        .iter()
        .enumerate()
        .flat_map(|(b, window)| (window.unscored..window.ids.len()).map(move |t| (b, t, window.ids[t])))
        .map(|(b, t, token)| (logits.row(b, t - 1), token))
        .collect();
    let mut each = vec![0.0; targets.len()];
    shares().split_mut(&mut each, 1, WORK * logits.vocab_size(), &|first, each| {
        for (&(logits, token), each) in targets[first..].iter().zip(each) {
            *each = nll(logits, token);
        }
    });
    let mut rest = each.as_slice();
    let of_window = |window: &&Window<'_>| {
        let (these, others) = rest.split_at(window.scored().len());
        rest = others;
        these.iter().sum()
    };
    windows.iter().map(of_window).collect()
}

/// `-log softmax(logits)[token]`, without overflow; NaN if one of the logits is.
fn nll(logits: &[f32], token: u32) -> f64 {
    let largest = largest(logits);
    sum_of_exp(logits, largest).ln() - (f64::from(logits[token as usize]) - f64::from(largest))
}

/// The largest value that is not NaN.
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

/// `sum_i exp(values[i] - largest)`.
fn sum_of_exp(values: &[f32], largest: f32) -> f64 {
    let (blocks, tail) = values.as_chunks::<LANES>();
    let mut sum: f64 = tail.iter().map(|&value| f64::from(exp::<false>(value - largest))).sum();
    for blocks in blocks.chunks(ROUNDS) {
        let mut lanes = [0.0_f32; LANES];
        for block in blocks {
            for (lane, &value) in lanes.iter_mut().zip(block) {
                *lane += exp::<false>(value - largest);
            }
        }
        sum += lanes.iter().copied().map(f64::from).sum::<f64>();
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reference(logits: &[f32], token: u32) -> f64 {
        let wide: Vec<f64> = logits.iter().copied().map(f64::from).collect();
        let largest = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = wide.iter().map(|logit| (logit - largest).exp()).sum();
        sum.ln() + largest - wide[token as usize]
    }

    #[test]
    fn uniform_logits_give_the_size_of_the_vocabulary() {
        for vocab_size in [2_u16, 384, 50_257] {
            let perplexity = nll(&vec![7.5; usize::from(vocab_size)], 1).exp();
            assert!((perplexity / f64::from(vocab_size) - 1.0).abs() < 1e-14, "{perplexity}");
        }
    }

    #[test]
    fn extreme_logits_do_not_overflow_and_what_is_no_number_shows() {
        assert!(nll(&[-1e30, 0.0], 1).abs() < 1e-12);
        assert!((nll(&[3e38, -3e38], 1) / 6e38 - 1.0).abs() < 1e-6);
        assert_eq!(nll(&[f32::NEG_INFINITY, 0.0], 0), f64::INFINITY);
        for place in [0, 17, 40] {
            for value in [f32::NAN, f32::INFINITY] {
                let mut logits = [0.0; 41];
                logits[place] = value;
                assert!(nll(&logits, 1).is_nan());
            }
        }
        assert!(nll(&[f32::NEG_INFINITY; 20], 1).is_nan());
    }

    #[test]
    fn exp_is_accurate_over_its_whole_range() {
        for step in 0..=870_000_u32 {
            let x = -(step as f32) * 1e-4;
            let (found, expected) = (f64::from(exp::<false>(x)), f64::from(x).exp());
            assert!((found / expected - 1.0).abs() < 2.0 * f64::from(f32::EPSILON), "e^{x}: {found}");
        }
        assert_eq!(exp::<false>(0.0), 1.0);
        assert!(exp::<false>(f32::NEG_INFINITY) < 2e-38);
    }

    #[test]
    fn every_position_is_scored_whichever_thread_does_it() {
        let (vocab_size, positions) = (6_000_u32, 300);
        let value = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 2e6;
        let values = (0..2 * positions * vocab_size).map(value).collect();
        let logits = Logits::new(values, 2, vocab_size as usize).unwrap();
        let ids: Vec<u32> = (0..positions).map(|t| t * 19 % vocab_size).collect();
        let windows = [Window { ids: &ids, unscored: 1 }, Window { ids: &ids[..120], unscored: 100 }];
        let sums = batch_nll(&logits, &windows.each_ref());
        for (b, (window, sum)) in windows.iter().zip(sums).enumerate() {
            let expected: f64 =
                (window.unscored..window.ids.len()).map(|t| reference(logits.row(b, t - 1), ids[t])).sum();
            assert!((sum / expected - 1.0).abs() < 1e-7, "{sum} and {expected}");
        }
    }

    proptest! {
        #[test]
        fn it_is_the_same_as_in_double_precision(
            logits in prop::collection::vec(-60.0..60.0_f32, 1..3000),
            spread in 0.0..3.0_f32,
            token in any::<prop::sample::Index>(),
        ) {
            let logits: Vec<f32> = logits.iter().map(|logit| logit * spread).collect();
            let token = token.index(logits.len()) as u32;
            let (found, expected) = (nll(&logits, token), reference(&logits, token));
            prop_assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{} and {}", found, expected);
        }
    }
}
