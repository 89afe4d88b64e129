//! Prompts of different lengths in one batch: each as if it were alone, and none at another's cost.

use std::slice::from_ref;

use crate::common::fake::{ending_with, fake, fake_on, only};
use proptest::prelude::*;
use quantlab::generate::{
    FinishReason, GenerateOptions, GeneratedTokens, PaddingSide, generate_batch, generate_tokens,
};
use quantlab::model::{CausalLm, Loaded};
use quantlab_course::probe::{Costs, Event, Machine, ProbeModel};

fn loaded() -> Loaded {
    crate::common::load(crate::common::tiny(), "float32")
}

fn run(model: &dyn CausalLm, prompts: &[Vec<u32>], options: &GenerateOptions) -> Vec<GeneratedTokens> {
    generate_tokens(model, prompts, options, &mut |_, _| ()).unwrap()
}

/// Every way to lay out a batch.
fn layouts(options: &GenerateOptions) -> Vec<GenerateOptions> {
    let sides = [PaddingSide::Left, PaddingSide::Right];
    let of_side =
        |padding_side| [true, false].map(|use_cache| GenerateOptions { padding_side, use_cache, ..options.clone() });
    sides.into_iter().flat_map(of_side).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_sequence_is_what_it_is_alone(prompts in prop::collection::vec(prop::collection::vec(0..384_u32, 1..40), 1..5)) {
        let model = loaded().model;
        let options = GenerateOptions { max_new_tokens: 12, repetition_penalty: 1.1, ..GenerateOptions::default() };
        let alone: Vec<_> = prompts.iter().flat_map(|prompt| run(&*model, from_ref(prompt), &options)).collect();
        for options in layouts(&options) {
            prop_assert_eq!(&run(&*model, &prompts, &options), &alone, "{:?}", options);
        }
    }

    #[test]
    fn neighbours_do_not_change_what_is_drawn(
        prompts in prop::collection::vec(prop::collection::vec(0..384_u32, 1..40), 3),
        others in prop::collection::vec(prop::collection::vec(0..384_u32, 1..40), 3),
        seed: u64,
    ) {
        let model = loaded().model;
        let options =
            GenerateOptions { max_new_tokens: 10, do_sample: true, top_p: 0.9, seed, ..GenerateOptions::default() };
        let alone = run(&*model, &prompts[..1], &options);
        let swapped = [others[0].clone(), prompts[1].clone(), others[2].clone()];
        let among_others = run(&*model, &swapped, &options);
        for options in layouts(&options) {
            let together = run(&*model, &prompts, &options);
            prop_assert_eq!(&together[0], &alone[0]);
            prop_assert_eq!(&together[1], &among_others[1]);
        }
    }
}

#[test]
fn sequences_that_end_at_different_times_do_not_disturb_each_other() {
    let model = loaded().model;
    let options = GenerateOptions { max_new_tokens: 20, ..GenerateOptions::default() };
    let alone: Vec<_> = (1..384).map(|id| run(&*model, &[vec![id; id as usize % 7 + 1]], &options).remove(0)).collect();
    // One prompt for each number of new tokens that there is.
    let mut chosen: Vec<usize> = (0..alone.len()).collect();
    chosen.sort_by_key(|&i| alone[i].tokens.len());
    chosen.dedup_by_key(|i| alone[*i].tokens.len());
    chosen.sort_unstable();
    assert!(chosen.len() >= 3, "lengths to tell apart: {}", chosen.len());
    let prompts: Vec<Vec<u32>> = chosen.iter().map(|&i| vec![i as u32 + 1; (i + 1) % 7 + 1]).collect();
    for options in layouts(&options) {
        for (found, &i) in run(&*model, &prompts, &options).iter().zip(&chosen) {
            assert_eq!(found, &alone[i], "{options:?}");
        }
    }
}

/// Counts down from the last token of the prompt to 0, then ends: 9 is the token that ends a text.
fn countdown(machine: &Machine) -> ProbeModel {
    fake_on(machine, 10, 64, |last, _| only(if last == 0 { 9 } else { last - 1 }, 10))
}

fn machine() -> Machine {
    Machine::new(Costs::PLAIN)
}

#[test]
fn a_finished_sequence_costs_nothing_more() {
    let prompts = [vec![1], vec![7, 7, 3], vec![8, 0]];
    let options = GenerateOptions { max_new_tokens: 10, ..GenerateOptions::default() };
    let cached = machine();
    let found = run(&countdown(&cached), &prompts, &options);
    let tokens: Vec<&[u32]> = found.iter().map(|sequence| &sequence.tokens[..]).collect();
    assert_eq!(tokens, [&[0, 9][..], &[2, 1, 0, 9], &[9]]);
    assert!(found.iter().all(|sequence| sequence.finish_reason == FinishReason::Eos));
    let step = |batch, seq_len, past_len, padding| Event::Forward { batch, seq_len, past_len, padding };
    assert_eq!(cached.forwards(), [step(3, 3, 0, 3), step(2, 1, 3, 0), step(1, 1, 4, 0), step(1, 1, 5, 0)]);
    // Without a cache, what is left is no longer padded to the length of what is gone.
    let prompts = [vec![4, 4, 4, 4, 4, 0], vec![2], vec![1]];
    let uncached = machine();
    run(&countdown(&uncached), &prompts, &GenerateOptions { use_cache: false, ..options });
    assert_eq!(uncached.forwards(), [step(3, 6, 0, 10), step(2, 2, 0, 0), step(1, 3, 0, 0)]);
}

#[test]
fn each_token_is_seen_as_soon_as_it_is_known() {
    let machine = machine();
    let mut seen = Vec::new();
    let options = GenerateOptions { max_new_tokens: 3, ..GenerateOptions::default() };
    let mut on_token = |row, token| seen.push((row, token, machine.forwards().len()));
    let found = generate_tokens(&countdown(&machine), &[vec![5], vec![1]], &options, &mut on_token).unwrap();
    assert_eq!(seen, [(0, 4, 1), (1, 0, 1), (0, 3, 2), (1, 9, 2), (0, 2, 3)]);
    assert_eq!(found[0].finish_reason, FinishReason::Length);
    assert_eq!(found[1].finish_reason, FinishReason::Eos);
}

#[test]
fn the_last_token_allowed_may_end_the_text() {
    let options = GenerateOptions { max_new_tokens: 2, ..GenerateOptions::default() };
    assert_eq!(run(&countdown(&machine()), &[vec![1]], &options)[0].finish_reason, FinishReason::Eos);
    let never = GenerateOptions { stop_at_eos: false, ..options };
    assert_eq!(run(&countdown(&machine()), &[vec![1]], &never)[0].finish_reason, FinishReason::Length);
}

#[test]
fn any_of_several_tokens_ends_a_text() {
    let model = ending_with(countdown(&machine()), &[6, 9, 2]);
    let options = GenerateOptions { max_new_tokens: 10, ..GenerateOptions::default() };
    let found = run(&model, &[vec![8], vec![4], vec![1]], &options);
    let tokens: Vec<&[u32]> = found.iter().map(|sequence| &sequence.tokens[..]).collect();
    assert_eq!(tokens, [&[7, 6][..], &[3, 2], &[0, 9]]);
    assert!(found.iter().all(|sequence| sequence.finish_reason == FinishReason::Eos));
    // The tokens in the order of their ids, the likeliest first.
    let by_id = ending_with(fake(4, 64, |_, _| vec![3.0, 2.0, 1.0, 0.0]), &[0, 1]);
    assert_eq!(run(&by_id, &[vec![3]], &GenerateOptions { min_new_tokens: 2, ..options })[0].tokens, [2, 2, 0]);
}

#[test]
fn prompts_that_are_too_long_are_named_or_lose_their_beginning() {
    let loaded = loaded();
    let model = &*loaded.model;
    let long: Vec<u32> = (0..70).collect();
    let options = GenerateOptions { max_new_tokens: 10, ..GenerateOptions::default() };
    let prompts = [vec![1, 2, 3], long.clone()];
    let error = generate_tokens(model, &prompts, &options, &mut |_, _| ()).unwrap_err().to_string();
    assert!(error.starts_with("prompt 1: the prompt's 70 tokens and 10 new ones exceed"), "{error}");
    assert!(error.contains("`truncation`"), "{error}");
    let truncating = GenerateOptions { truncation: true, ..options.clone() };
    let found = run(model, &prompts, &truncating);
    assert_eq!((found[0].prompt_tokens, found[1].prompt_tokens), (3, 54));
    assert_eq!(found[1], run(model, &[long[16..].to_vec()], &options)[0]);
    // Also as text, where it is told how much is missing.
    let text = loaded.tokenizer.decode(&long[16..]).unwrap().repeat(2);
    let tokens = loaded.tokenizer.encode(&text).unwrap().len();
    let generation = &generate_batch(&loaded, &[&text], &truncating).unwrap()[0];
    assert_eq!((generation.prompt_tokens, generation.truncated_tokens), (54, tokens - 54));
    let note = generation.note();
    assert!(note.starts_with(&format!("54 prompt tokens (after {} that were cut off)", tokens - 54)), "{note}");
}

#[test]
fn batches_that_cannot_be_continued() {
    let loaded = loaded();
    let options = GenerateOptions::default();
    let message = |prompts: &[Vec<u32>], options: &GenerateOptions| {
        generate_tokens(&*loaded.model, prompts, options, &mut |_, _| ()).unwrap_err().to_string()
    };
    assert!(message(&[], &options).contains("no prompts"));
    assert!(generate_batch(&loaded, &[""; 0], &options).unwrap_err().to_string().contains("no prompts"));
    assert!(message(&[vec![1], vec![]], &options).starts_with("prompt 1: the prompt is empty"));
    assert!(message(&[vec![]], &options).starts_with("the prompt is empty"));
    assert!(message(&[vec![1], vec![999]], &options).contains("token id 999"));
    let wrong = GenerateOptions { top_p: 2.0, ..options.clone() };
    assert!(message(&[vec![1]], &wrong).contains("`top_p` is 2"));
    let stopping = GenerateOptions { stop_strings: vec!["x".to_owned()], ..options };
    assert!(message(&[vec![1]], &stopping).contains("`generate_batch`"));
}

#[test]
fn logits_that_are_no_numbers_are_an_error_of_their_prompt() {
    let model = fake(4, 64, |last, _| vec![if last == 2 { f32::NAN } else { 0.0 }; 4]);
    let error = generate_tokens(&model, &[vec![1], vec![2]], &GenerateOptions::default(), &mut |_, _| ());
    assert!(error.unwrap_err().to_string().starts_with("prompt 1: the model's logits are not finite (NaN"));
}
