use proptest::prelude::*;
use rand::Rng as _;

use super::*;

fn sampling() -> GenerateOptions {
    GenerateOptions { do_sample: true, ..GenerateOptions::default() }
}

/// What can be drawn after logits, with its probability, by id.
fn distribution(logits: &[f32], options: &GenerateOptions) -> Vec<(u32, f64)> {
    let mut sampler = Sampler::default();
    sampler.score(options, logits, &[], &[]).unwrap();
    sampler.find_candidates(options).unwrap();
    let whole = total(&sampler.candidates);
    sampler.candidates.iter().map(|candidate| (candidate.id, candidate.weight / whole)).collect()
}

fn ids(distribution: &[(u32, f64)]) -> Vec<u32> {
    distribution.iter().map(|(id, _)| *id).collect()
}

fn next(logits: &[f32], before: &[u32], forbidden: &[u32], options: &GenerateOptions) -> Result<u32> {
    Sampler::default().next_token(options, logits, before, forbidden, &mut random_stream(0, 0))
}

#[test]
fn the_first_of_equals_wins_and_what_is_forbidden_never() {
    let greedy = GenerateOptions::default();
    assert_eq!(next(&[0.0, 2.0, 2.0], &[], &[], &greedy).unwrap(), 1);
    assert_eq!(next(&[0.0, 2.0, 2.0], &[], &[1], &greedy).unwrap(), 2);
    assert_eq!(next(&[0.0, 2.0, 2.0], &[], &[2, 1], &greedy).unwrap(), 0);
    // A config may name a token that the model has no logit for.
    assert_eq!(next(&[0.0, 2.0, 2.0], &[], &[9], &greedy).unwrap(), 1);
    for seed in 0..50 {
        let rng = &mut random_stream(seed, 0);
        let drawn = Sampler::default().next_token(&sampling(), &[0.0, 50.0, 0.0], &[], &[1], rng).unwrap();
        assert_eq!(drawn % 2, 0);
    }
}

#[test]
fn logits_that_are_no_numbers_are_an_error() {
    for options in [GenerateOptions::default(), sampling()] {
        for damaged in [[f32::NAN, f32::NAN], [0.0, f32::NAN], [f32::INFINITY, 0.0]] {
            let error = next(&damaged, &[], &[], &options).unwrap_err().to_string();
            assert!(error.contains("logits are not finite (NaN"), "{error}");
        }
        for (impossible, forbidden) in [([f32::NEG_INFINITY; 2], &[][..]), ([0.0, f32::NEG_INFINITY], &[0])] {
            let error = next(&impossible, &[], forbidden, &options).unwrap_err().to_string();
            assert!(error.contains("no token can be chosen"), "{error}");
        }
    }
}

/// By hand: 3 / 1.5 = 2, -1 * 1.5 = -1.5; tokens 2 and 3 did not occur.
#[test]
fn repetition_is_penalised_once_for_each_token() {
    let options = GenerateOptions { repetition_penalty: 1.5, ..GenerateOptions::default() };
    let mut sampler = Sampler::default();
    sampler.score(&options, &[3.0, -1.0, 2.5, -1.2], &[0, 1, 0, 0], &[]).unwrap();
    assert_eq!(sampler.scores, [2.0, -1.5, 2.5, -1.2]);
    // Below 1 it encourages.
    let options = GenerateOptions { repetition_penalty: 0.5, ..GenerateOptions::default() };
    assert_eq!(next(&[2.0, 1.1, 2.1], &[1], &[], &options).unwrap(), 1);
}

/// Of penalties that make what they change larger than any number; the weights are not to blame.
#[test]
fn an_extreme_penalty_goes_as_far_as_numbers_do() {
    for do_sample in [false, true] {
        let options =
            |repetition_penalty| GenerateOptions { repetition_penalty, do_sample, ..GenerateOptions::default() };
        assert_eq!(next(&[3.0, 2.0, -1.0], &[1], &[], &options(1e-40)).unwrap(), 1);
        assert_eq!(next(&[3.0, 2.0], &[0, 1], &[0], &options(1e-40)).unwrap(), 1);
        let largest = options(f32::MAX.into());
        assert_eq!(next(&[-3.0, f32::NEG_INFINITY], &[0, 1], &[], &largest).unwrap(), 0);
        let error = next(&[f32::NAN, 1.0], &[0], &[], &largest).unwrap_err().to_string();
        assert!(error.contains("logits are not finite (NaN"), "{error}");
    }
}

/// Probabilities 0.5, 0.3, 0.15, 0.05 in another order.
#[test]
fn top_p_keeps_the_smallest_set_by_hand() {
    let logits = [0.05_f32, 0.5, 0.15, 0.3].map(f32::ln);
    let kept = |top_p| ids(&distribution(&logits, &GenerateOptions { top_p, ..sampling() }));
    assert_eq!(kept(1e-9), [1]);
    assert_eq!(kept(0.49), [1]);
    assert_eq!(kept(0.51), [1, 3]);
    assert_eq!(kept(0.79), [1, 3]);
    assert_eq!(kept(0.81), [1, 2, 3]);
    assert_eq!(kept(0.96), [0, 1, 2, 3]);
    // Of equals, those that are needed.
    assert_eq!(ids(&distribution(&[0.0; 10], &GenerateOptions { top_p: 0.35, ..sampling() })), [0, 1, 2, 3]);
}

/// As in transformers, top-p sees what top-k left: 0.5 / 0.8 and 0.3 / 0.8.
#[test]
fn temperature_top_k_and_top_p_work_together() {
    let logits = [0.05_f32, 0.5, 0.15, 0.3].map(f32::ln);
    let options = GenerateOptions { top_k: Some(2), top_p: 0.6, ..sampling() };
    assert_eq!(distribution(&logits, &options), [(1, 1.0)]);
    let squared = distribution(&logits, &GenerateOptions { temperature: 0.5, top_k: Some(2), ..sampling() });
    assert_eq!(ids(&squared), [1, 3]);
    assert!((squared[0].1 - 0.25 / 0.34).abs() < 1e-6, "{squared:?}");
}

#[test]
fn top_k_keeps_those_as_likely_as_the_last() {
    let kept = |top_k| ids(&distribution(&[1.0, 3.0, 2.0, 2.0], &GenerateOptions { top_k: Some(top_k), ..sampling() }));
    assert_eq!([kept(1), kept(2), kept(3), kept(9)], [vec![1], vec![1, 2, 3], vec![1, 2, 3], vec![0, 1, 2, 3]]);
}

#[test]
fn streams_are_their_own() {
    let draws = |seed, index| -> [u64; 2] { random_stream(seed, index).random() };
    let all = [draws(0, 0), draws(0, 1), draws(1, 0), draws(1, 1)];
    assert!((0..4).all(|i| (0..i).all(|j| all[i] != all[j])));
    assert_eq!(draws(1, 1), all[3]);
}

/// Logits of which some are impossible, and some equal.
fn logits() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![8 => -8.0..8.0_f32, 1 => Just(1.0_f32), 1 => Just(f32::NEG_INFINITY)];
    prop::collection::vec(logit, 1..200)
        .prop_filter("nothing is possible", |logits| logits.iter().any(|l| l.is_finite()))
}

fn options() -> impl Strategy<Value = GenerateOptions> {
    (0.05..4.0_f64, prop::option::of(1..250_usize), prop_oneof![0.01..0.999, Just(1.0)])
        .prop_map(|(temperature, top_k, top_p)| GenerateOptions { temperature, top_k, top_p, ..sampling() })
}

/// Softmax of the possible tokens, as its definition says.
fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
    let exp: Vec<f64> = logits.iter().map(|&logit| (f64::from(logit) / temperature).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|exp| exp / sum).collect()
}

proptest! {
    #[test]
    fn probabilities_add_up_and_keep_their_ratios(logits in logits(), options in options()) {
        let kept = distribution(&logits, &options);
        prop_assert!((kept.iter().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-9);
        let all = softmax(&logits, options.temperature);
        let mass: f64 = kept.iter().map(|(id, _)| all[*id as usize]).sum();
        for (id, p) in kept {
            prop_assert!(logits[id as usize].is_finite());
            prop_assert!((p - all[id as usize] / mass).abs() < 1e-9);
        }
    }

    #[test]
    fn without_limits_all_that_is_possible_stays(logits in logits()) {
        let possible: Vec<u32> = (0..logits.len()).filter(|&i| logits[i].is_finite()).map(|i| i as u32).collect();
        prop_assert_eq!(ids(&distribution(&logits, &sampling())), possible);
    }

    #[test]
    fn top_k_keeps_k_and_ties(logits in logits(), k in 1..250_usize) {
        let kept = ids(&distribution(&logits, &GenerateOptions { top_k: Some(k), ..sampling() }));
        let mut sorted: Vec<f32> = logits.iter().copied().filter(|logit| logit.is_finite()).collect();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let least = sorted[k.min(sorted.len()) - 1];
        let expected: Vec<u32> = (0..logits.len()).filter(|&i| logits[i] >= least).map(|i| i as u32).collect();
        prop_assert_eq!(kept, expected);
    }

    #[test]
    fn top_p_is_the_smallest_set(logits in logits(), top_p in 0.01..0.999_f64) {
        let kept = ids(&distribution(&logits, &GenerateOptions { top_p, ..sampling() }));
        let all = softmax(&logits, 1.0);
        let of = |id: &u32| all[*id as usize];
        let mass: f64 = kept.iter().map(of).sum();
        let least = kept.iter().map(of).fold(1.0, f64::min);
        prop_assert!(mass >= top_p - 1e-9, "{} is not enough", mass);
        prop_assert!(mass - least < top_p + 1e-9, "{} without the least, {}, is enough", mass, least);
        let left_out = (0..all.len()).filter(|&id| !kept.contains(&(id as u32)));
        prop_assert!(left_out.map(|id| all[id]).all(|p| p <= least));
    }

    #[test]
    fn the_order_of_ids_does_not_matter(
        logits in prop::collection::hash_set(-800..800_i32, 1..100),
        options in options(),
        rotation in 0..100_usize,
    ) {
        let logits: Vec<f32> = logits.into_iter().map(|logit| logit as f32 / 100.0).collect();
        let mut rotated = logits.clone();
        rotated.rotate_left(rotation % logits.len());
        let by_logit = |logits: &[f32]| {
            let mut kept = distribution(logits, &options);
            kept.sort_by(|a, b| logits[b.0 as usize].total_cmp(&logits[a.0 as usize]));
            kept.into_iter().map(|(id, p)| (logits[id as usize], p)).collect::<Vec<_>>()
        };
        let (kept, kept_rotated) = (by_logit(&logits), by_logit(&rotated));
        prop_assert_eq!(kept.len(), kept_rotated.len());
        for (a, b) in kept.iter().zip(&kept_rotated) {
            prop_assert!(a.0 == b.0 && (a.1 - b.1).abs() < 1e-12);
        }
    }

    #[test]
    fn a_temperature_near_zero_is_greedy(logits in prop::collection::hash_set(-800..800_i32, 1..100), seed: u64) {
        let logits: Vec<f32> = logits.into_iter().map(|logit| logit as f32 / 100.0).collect();
        let greedy = next(&logits, &[], &[], &GenerateOptions::default()).unwrap();
        for temperature in [1e-4, 1e-300, f64::MIN_POSITIVE] {
            let cold = GenerateOptions { temperature, ..sampling() };
            let rng = &mut random_stream(seed, 0);
            let drawn = Sampler::default().next_token(&cold, &logits, &[], &[], rng).unwrap();
            prop_assert_eq!(drawn, greedy);
        }
    }

    #[test]
    fn every_number_draws_something_possible(logits in logits(), options in options(), u in 0.0..1.0_f64) {
        let mut sampler = Sampler::default();
        sampler.score(&options, &logits, &[], &[]).unwrap();
        sampler.find_candidates(&options).unwrap();
        for u in [0.0, u, 1.0 - f64::EPSILON / 2.0] {
            let drawn = draw(&sampler.candidates, u).unwrap();
            prop_assert!(logits[drawn as usize].is_finite());
        }
    }
}
