//! Guessed tokens change how many passes a text takes, never the text.

use proptest::prelude::*;
use quantlab::generate::{Draft, FinishReason, GenerateOptions};
use quantlab::model::{LoadOptions, Loaded, load_model};
use quantlab::quant::QuantizationConfig;

fn embedded(quantization: Option<QuantizationConfig>) -> Loaded {
    load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() }).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_text_is_that_of_generating_without_guesses(
        seed in 0..1000_u64, guesses in 0..7_usize, max_new_tokens in 1..40_usize, do_sample: bool, is_lookup: bool,
        penalty in prop::sample::select(vec![1.0, 1.2]), prompt in prop::sample::select(vec![
            "The capital of France is", "Once upon a time", "fn main() { let x = vec![1, 2, 3]; let y = vec![1, 2,", "a",
        ]),
    ) {
        let (target, draft) = (embedded(None), embedded(Some(QuantizationConfig::fp4())));
        let options = GenerateOptions {
            max_new_tokens, do_sample, seed, temperature: 0.8, top_k: Some(40), top_p: 0.95, repetition_penalty: penalty,
            min_new_tokens: max_new_tokens / 2, ..GenerateOptions::default()
        };
        let ids = target.tokenizer.encode(prompt).unwrap();
        let source = if is_lookup { Draft::PromptLookup { ngram: 3 } } else { Draft::Model(&*draft.model) };
        let found = target.generate_speculative(&ids, source, guesses, &options).unwrap();
        prop_assert_eq!(&found.generated, &target.generate_tokens(&ids, &options).unwrap());
        // Each pass gives the guesses that are right, and one token of the model's own.
        prop_assert!(found.accepted <= found.checked && found.checked <= guesses * found.passes);
        let from_passes = found.passes + found.accepted;
        prop_assert!([from_passes, from_passes - 1].contains(&found.generated.tokens.len()), "{found:?}");
    }
}

#[test]
fn a_model_that_guesses_for_itself_is_always_right() {
    let loaded = embedded(None);
    let ids = loaded.tokenizer.encode("Once upon a time").unwrap();
    for do_sample in [false, true] {
        let options =
            GenerateOptions { max_new_tokens: 20, do_sample, stop_at_eos: false, ..GenerateOptions::default() };
        let found = loaded.generate_speculative(&ids, Draft::Model(&*loaded.model), 4, &options).unwrap();
        assert_eq!((found.passes, found.checked, found.accepted), (4, 16, 16));
        assert_eq!((found.acceptance(), found.tokens_per_pass()), (1.0, 5.0));
        assert_eq!(found.generated.finish_reason, FinishReason::Length);
    }
}

#[test]
fn guesses_save_passes_where_a_text_repeats() {
    let loaded = embedded(None);
    let list = "The capital of France is Paris. The capital of Germany is Berlin. The capital of Italy is Rome.";
    let ids = loaded.tokenizer.encode(list).unwrap();
    let options = GenerateOptions { max_new_tokens: 40, ..GenerateOptions::default() };
    let found = loaded.generate_speculative(&ids, Draft::PromptLookup { ngram: 3 }, 5, &options).unwrap();
    assert!(found.tokens_per_pass() > 1.5, "{found:?}");
    let none = loaded.generate_speculative(&ids, Draft::PromptLookup { ngram: 3 }, 0, &options).unwrap();
    assert_eq!((none.passes, none.checked), (none.generated.tokens.len(), 0));
    assert!(none.acceptance().is_nan());
}

#[test]
fn a_context_that_is_full_takes_no_guesses_beyond_it() {
    let (target, draft) = (embedded(None), embedded(Some(QuantizationConfig::nf4())));
    let context_len = target.model.info().context_len;
    let ids: Vec<u32> = target.tokenizer.encode(&"The fox said hello. ".repeat(200)).unwrap();
    let ids = &ids[..context_len - 5];
    let options = GenerateOptions { max_new_tokens: 5, stop_at_eos: false, ..GenerateOptions::default() };
    for source in [Draft::PromptLookup { ngram: 2 }, Draft::Model(&*draft.model)] {
        let found = target.generate_speculative(ids, source, 9, &options).unwrap();
        assert_eq!(found.generated, target.generate_tokens(ids, &options).unwrap());
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let (loaded, other) = (embedded(None), load_model(&["random:gpt2"], &LoadOptions::default()).unwrap());
    let refused = |draft: Draft, options: GenerateOptions| {
        loaded.generate_speculative(&[1, 2], draft, 3, &options).unwrap_err().to_string()
    };
    let default = GenerateOptions::default;
    let lookup = Draft::PromptLookup { ngram: 2 };
    assert!(refused(Draft::PromptLookup { ngram: 0 }, default()).contains("`ngram` is 0"));
    assert!(refused(lookup, GenerateOptions { use_cache: false, ..default() }).contains("`use_cache` is false"));
    let stop_strings = vec![".".to_owned()];
    assert!(refused(lookup, GenerateOptions { stop_strings, ..default() }).contains("`stop_strings` is set"));
    let error = refused(Draft::Model(&*other.model), default());
    assert!(error.contains("vocabulary of 50257 tokens, the model one of 4096"), "{error}");
    assert!(loaded.generate_speculative(&[], lookup, 3, &default()).is_err());
}
