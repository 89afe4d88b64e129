//! Exponentials and likelihoods against double precision, with every instruction set that this processor has.

use proptest::prelude::*;

use super::*;
use crate::test_numbers::cases;

fn reference(logits: &[f32], token: u32) -> f64 {
    let wide: Vec<f64> = logits.iter().copied().map(f64::from).collect();
    let largest = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = wide.iter().map(|logit| (logit - largest).exp()).sum();
    sum.ln() + largest - wide[token as usize]
}

/// `nll` of every instruction set.
fn each(logits: &[f32], token: u32) -> Vec<f64> {
    Isa::available().into_iter().map(|isa| negative_log_likelihood_with(isa, logits, token)).collect()
}

#[test]
fn uniform_logits_give_the_size_of_the_vocabulary() {
    for vocab_size in [2_u16, 384, 50_257] {
        for nll in each(&vec![7.5; usize::from(vocab_size)], 1) {
            assert!((nll.exp() / f64::from(vocab_size) - 1.0).abs() < 1e-14, "{nll}");
        }
    }
}

#[test]
fn extreme_logits_do_not_overflow_and_what_is_no_number_shows() {
    let all =
        |logits: &[f32], token: u32, holds: &dyn Fn(f64) -> bool| assert!(each(logits, token).into_iter().all(holds));
    all(&[-1e30, 0.0], 1, &|nll| nll.abs() < 1e-12);
    all(&[3e38, -3e38], 1, &|nll| (nll / 6e38 - 1.0).abs() < 1e-6);
    all(&[f32::NEG_INFINITY, 0.0], 0, &|nll| nll == f64::INFINITY);
    for place in [0, 17, 40] {
        for value in [f32::NAN, f32::INFINITY] {
            let mut logits = [0.0; 41];
            logits[place] = value;
            all(&logits, 1, &f64::is_nan);
        }
    }
    all(&[f32::NEG_INFINITY; 20], 1, &f64::is_nan);
}

struct Exp<'a>(&'a mut [f32]);

impl<S: Simd> Kernel<S> for Exp<'_> {
    #[inline(always)]
    fn run(self, _: S) {
        self.0.iter_mut().for_each(|x| *x = exp::<S>(*x));
    }
}

#[test]
fn exp_is_accurate_over_its_whole_range() {
    let x: Vec<f32> = (0..=870_000_u32).map(|step| -(step as f32) * 1e-4).collect();
    for isa in Isa::available() {
        let mut found = x.clone();
        isa.dispatch(Exp(&mut found));
        for (x, found) in x.iter().zip(found) {
            let expected = f64::from(*x).exp();
            assert!((f64::from(found) / expected - 1.0).abs() < 2.0 * f64::from(f32::EPSILON), "e^{x}: {found}");
        }
        let mut ends = [0.0, f32::NEG_INFINITY];
        isa.dispatch(Exp(&mut ends));
        assert!(ends[0] == 1.0 && ends[1] < 2e-38);
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn it_is_the_same_as_in_double_precision(
        logits in prop::collection::vec(-60.0..60.0_f32, 1..3000),
        spread in 0.0..3.0_f32,
        token in any::<prop::sample::Index>(),
    ) {
        let logits: Vec<f32> = logits.iter().map(|logit| logit * spread).collect();
        let token = token.index(logits.len()) as u32;
        let expected = reference(&logits, token);
        for found in each(&logits, token) {
            prop_assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{} and {}", found, expected);
        }
    }
}

struct MaskedExp<'a>(&'a mut [f32], Range<usize>, &'a [bool]);

impl<S: Simd> Kernel<S> for MaskedExp<'_> {
    #[inline(always)]
    fn run(self, simd: S) {
        masked_exp(simd, self.0, self.1, 2.0, Some(self.2));
    }
}

#[test]
fn keys_that_are_not_seen_weigh_nothing() {
    for isa in Isa::available() {
        let mut scores = [5.0, 1.0, f32::NAN, 2.0, 9.0];
        isa.dispatch(MaskedExp(&mut scores, 1..4, &[true, true, false, true, true]));
        assert_eq!([scores[0], scores[2], scores[4]], [0.0; 3]);
        assert!((scores[1] - (-2.0_f32).exp()).abs() < 1e-6 && (scores[3] - 1.0).abs() < 1e-6);
        let mut none = [1.0, 2.0];
        isa.dispatch(MaskedExp(&mut none, 0..2, &[false, false]));
        assert_eq!(none, [0.0, 0.0]);
    }
}
