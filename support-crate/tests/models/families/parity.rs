//! Numbers of transformers.

use std::slice::from_ref;

use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::measure::{PerplexityOptions, perplexity_of_tokens};
use quantlab::model::{KvCache, Loaded, LogitPositions, TokenBatch};

use super::cases::{cases, on_engines};
use crate::common::{Case, distance};

const LOGITS: f32 = 1e-4;

#[test]
fn every_family_has_a_case() {
    let names: Vec<String> = cases().into_iter().map(|case| case.name).collect();
    let expected = [
        "gemma2",
        "gemma2-window",
        "gemma3",
        "gemma3-heads",
        "gemma3-scaled",
        "granite",
        "granite-biases",
        "granite-tied",
        "llama",
        "mistral",
        "olmo2",
        "olmo2-biases",
        "phi3",
        "phi3-longrope",
        "phi3-window",
        "qwen2",
        "qwen3",
        "qwen3-tied",
        "qwen3-window",
        "smollm3",
        "smollm3-window",
        "stablelm",
        "stablelm-norms",
        "stablelm-parallel",
    ];
    assert_eq!(names, expected);
    assert!(cases().iter().filter(|case| case.folder.join("model.safetensors.index.json").exists()).count() >= 2);
}

#[test]
fn logits_of_all_positions() {
    for (case, loaded) in on_engines() {
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap();
        let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
        let distance = distance(logits.values(), &case.values("logits"));
        assert!(distance < LOGITS, "{}: {distance}", loaded.summary());
    }
}

/// The whole prompt at once, as generation does it, and then token by token.
#[test]
fn logits_of_a_prompt_and_of_steps_after_it() {
    for (case, loaded) in on_engines() {
        for prompt in [1, 4, 9, 14] {
            let mut cache = loaded.model.new_cache(case.ids("input_ids").len(), 15).unwrap();
            step(&case, &loaded, &mut cache, prompt, LogitPositions::Last);
            (prompt..15).for_each(|_| step(&case, &loaded, &mut cache, 1, LogitPositions::Last));
            // A cache that has been used is as good as a new one.
            cache.reset();
            step(&case, &loaded, &mut cache, 15, LogitPositions::Last);
        }
    }
}

#[test]
fn logits_of_pieces_of_any_length() {
    for (case, loaded) in on_engines() {
        let mut cache = loaded.model.new_cache(case.ids("input_ids").len(), 15).unwrap();
        (1..=5).for_each(|len| step(&case, &loaded, &mut cache, len, LogitPositions::All));
        cache.reset();
        (2..=4).for_each(|len| step(&case, &loaded, &mut cache, len, LogitPositions::LastN(len - 1)));
        loaded.model.truncate(&mut cache, 3).unwrap();
        step(&case, &loaded, &mut cache, 4, LogitPositions::All);
        loaded.model.truncate(&mut cache, 0).unwrap();
        step(&case, &loaded, &mut cache, 5, LogitPositions::Last);
    }
}

/// Feeds the next `len` tokens of each prompt, and compares.
fn step(case: &Case, loaded: &Loaded, cache: &mut KvCache, len: usize, positions: LogitPositions) {
    let (rows, start) = (case.ids("input_ids"), cache.past_len());
    let piece: Vec<Vec<u32>> = rows.iter().map(|row| row[start..start + len].to_vec()).collect();
    let logits = loaded.model.forward(&TokenBatch::new(&piece).unwrap(), Some(cache), positions).unwrap();
    let (expected, vocab) = (case.values("logits"), logits.vocab_size());
    let expected_positions = match positions {
        LogitPositions::All => len,
        LogitPositions::Last => 1,
        LogitPositions::LastN(count) => count,
    };
    assert_eq!(logits.positions(), expected_positions);
    for (b, row) in rows.iter().enumerate() {
        for position in 0..logits.positions() {
            let token = start + len - logits.positions() + position;
            let at = (b * row.len() + token) * vocab;
            let distance = distance(logits.row(b, position), &expected[at..at + vocab]);
            assert!(distance < LOGITS, "{}: sequence {b}, token {token}: {distance}", loaded.summary());
        }
    }
}

#[test]
fn greedy_tokens_with_and_without_the_cache_alone_and_together() {
    for (case, loaded) in on_engines() {
        let (prompts, expected) = (case.ids("input_ids"), case.ids("greedy"));
        let new = expected[0].len();
        for use_cache in [true, false] {
            let options =
                GenerateOptions { max_new_tokens: new, min_new_tokens: new, use_cache, ..GenerateOptions::default() };
            let tokens = |prompts: &[Vec<u32>]| -> Vec<Vec<u32>> {
                let found = generate_tokens(&*loaded.model, prompts, &options, &mut |_, _| ()).unwrap();
                found.into_iter().map(|sequence| sequence.tokens).collect()
            };
            assert_eq!(tokens(&prompts), expected, "{}, use_cache {use_cache}", case.name);
            for (prompt, expected) in prompts.iter().zip(&expected) {
                assert_eq!(tokens(from_ref(prompt)), from_ref(expected), "{}, use_cache {use_cache}", case.name);
            }
        }
    }
}

#[test]
fn loss_is_that_of_transformers() {
    for (case, loaded) in on_engines() {
        let result = perplexity_of_tokens(&loaded, &case.ids("input_ids"), &PerplexityOptions::default()).unwrap();
        let expected = f64::from(case.values("loss")[0]);
        assert!((result.mean_nll - expected).abs() < 1e-5, "{}: {} and {expected}", case.name, result.mean_nll);
    }
}
