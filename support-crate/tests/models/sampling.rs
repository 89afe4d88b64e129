//! Tokens are drawn as often as their probabilities say, and the same ones for the same seed.

use crate::common::fake::fake;
use quantlab::generate::{GenerateOptions, generate, generate_tokens};
use quantlab_course::probe::ProbeModel;

const VOCAB: usize = 8;

/// A model that always gives these logits; the last token, which ends a text, is impossible.
fn memoryless() -> ProbeModel {
    fake(VOCAB, 1 << 16, |_, _| LOGITS.to_vec())
}

const LOGITS: [f32; VOCAB] = [0.0, 1.5, -1.0, 2.0, 0.5, -0.5, 1.0, f32::NEG_INFINITY];

fn sampling() -> GenerateOptions {
    GenerateOptions { max_new_tokens: 8_000, do_sample: true, seed: 11, ..GenerateOptions::default() }
}

/// Pearson's statistic of the tokens that a batch of four draws, against probabilities. Each sequence is
/// compared on its own, too: streams that are correlated would not show in their sum.
fn chi_squares(options: &GenerateOptions, expected: [f64; VOCAB]) -> Vec<f64> {
    let prompts: Vec<Vec<u32>> = vec![vec![0]; 4];
    let found = generate_tokens(&memoryless(), &prompts, options, &mut |_, _| ()).unwrap();
    let mut samples: Vec<Vec<u32>> = found.into_iter().map(|sequence| sequence.tokens).collect();
    samples.push(samples.concat());
    samples.iter().map(|tokens| chi_square(tokens, expected)).collect()
}

fn chi_square(tokens: &[u32], expected: [f64; VOCAB]) -> f64 {
    let term = |(id, p): (usize, f64)| {
        let count = tokens.iter().filter(|&&token| token as usize == id).count() as f64;
        let expected = p * tokens.len() as f64;
        if p == 0.0 {
            assert_eq!(count, 0.0, "token {id} is impossible");
            return 0.0;
        }
        (count - expected).powi(2) / expected
    };
    expected.into_iter().enumerate().map(term).sum()
}

/// Probabilities of those tokens that `keep` names, by the definition of softmax.
fn probabilities(temperature: f64, keep: &[usize]) -> [f64; VOCAB] {
    let weight = |id: usize| if keep.contains(&id) { (f64::from(LOGITS[id]) / temperature).exp() } else { 0.0 };
    let sum: f64 = (0..VOCAB).map(weight).sum();
    std::array::from_fn(|id| weight(id) / sum)
}

#[test]
fn tokens_are_drawn_as_often_as_their_probabilities_say() {
    let all = [0, 1, 2, 3, 4, 5, 6];
    let cases = [
        (sampling(), probabilities(1.0, &all)),
        (GenerateOptions { temperature: 0.5, ..sampling() }, probabilities(0.5, &all)),
        (GenerateOptions { temperature: 2.0, top_k: Some(3), ..sampling() }, probabilities(2.0, &[1, 3, 6])),
        // 3, 1 and 6 have 0.42 + 0.25 + 0.15 of the whole.
        (GenerateOptions { top_p: 0.8, ..sampling() }, probabilities(1.0, &[1, 3, 6])),
    ];
    for (options, expected) in cases {
        for statistic in chi_squares(&options, expected) {
            // Six degrees of freedom exceed 30 once in 25,000 times.
            assert!(statistic < 30.0, "{statistic} for {options:?}");
        }
    }
    // The test can fail: a temperature of 1.1 is not one of 1.
    let other = GenerateOptions { temperature: 1.1, ..sampling() };
    assert!(chi_squares(&other, probabilities(1.0, &all))[4] > 30.0);
}

#[test]
fn a_seed_is_one_text() {
    let loaded = crate::common::load(crate::common::tiny(), "float32");
    let text = |seed, use_cache| {
        let options = GenerateOptions { max_new_tokens: 20, stop_at_eos: false, seed, use_cache, ..sampling() };
        let generation = generate(&loaded, "the quick brown", &options).unwrap();
        assert_eq!(generation.seed, Some(seed));
        generation.tokens
    };
    assert_eq!(text(1, true), text(1, true));
    assert_eq!(text(1, true), text(1, false));
    assert_ne!(text(1, true), text(2, true));
    let greedy = GenerateOptions { do_sample: false, ..sampling() };
    assert_eq!(generate(&loaded, "fox", &GenerateOptions { max_new_tokens: 2, ..greedy }).unwrap().seed, None);
}

#[test]
fn prompts_that_are_equal_draw_different_texts() {
    let found = generate_tokens(&memoryless(), &[vec![0], vec![0]], &sampling(), &mut |_, _| ()).unwrap();
    let equal = found[0].tokens.iter().zip(&found[1].tokens).filter(|(a, b)| a == b).count() as f64;
    // Two independent draws agree as often as the probabilities' squares add up to.
    let expected: f64 = probabilities(1.0, &[0, 1, 2, 3, 4, 5, 6]).iter().map(|p| p * p).sum();
    assert!((equal / 8_000.0 - expected).abs() < 0.03, "{equal} of 8000, expected {expected}");
}

/// By hand, with a penalty of 1.4: 3.0 is 2.14 once it was said, 2.5 is 1.79, and 2.0 is left behind.
#[test]
fn repetition_is_penalised_over_prompt_and_new_tokens_but_not_padding() {
    let model = fake(5, 64, |_, _| vec![3.0, 2.5, 2.0, 0.0, -1.0]);
    let options = GenerateOptions { max_new_tokens: 3, repetition_penalty: 1.4, ..GenerateOptions::default() };
    // Padding has id 0, so a penalty for it would show in the first token of the shorter prompts.
    let prompts = [vec![3], vec![0, 3, 3], vec![3, 1], vec![2, 1, 0]];
    let found = generate_tokens(&model, &prompts, &options, &mut |_, _| ()).unwrap();
    let tokens: Vec<&[u32]> = found.iter().map(|sequence| &sequence.tokens[..]).collect();
    assert_eq!(tokens, [[0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]);
}

#[test]
fn the_end_is_not_drawn_too_early() {
    // The end, token 3, is likely at every step.
    let model = fake(4, 64, |_, _| vec![0.0, 0.0, 0.0, 5.0]);
    for seed in 0..20 {
        let options = GenerateOptions { max_new_tokens: 30, min_new_tokens: 6, seed, ..sampling() };
        let tokens = generate_tokens(&model, &[vec![1]], &options, &mut |_, _| ()).unwrap().remove(0).tokens;
        assert!(tokens.len() > 6 && !tokens[..6].contains(&3), "{tokens:?}");
        assert_eq!(tokens.last(), Some(&3));
    }
}
