//! The models that ship with the library are worth measuring.

use quantlab::generate::{GenerateOptions, generate};
use quantlab::measure::{PerplexityOptions, perplexity};
use quantlab::model::{Device, LoadOptions, Loaded, load_model, load_model_and_tokenizer};
use quantlab::quant::QuantizationConfig;
use quantlab::source::held_out_text;
use serde::Deserialize;

/// What `xz -9e` needs for the held-out text, in bits for each byte.
const XZ: f64 = 2.3;

/// Part of the taught facts that must be recalled.
const RECALL: f64 = 0.95;

fn embedded() -> Loaded {
    load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu).unwrap()
}

#[test]
fn it_predicts_text_that_it_never_saw_better_than_a_compressor() {
    // A third of it says as much, to a few hundredths of a bit.
    let text = &held_out_text()[..48_000];
    let result = perplexity(&embedded(), &[text], &PerplexityOptions::default()).unwrap();
    println!("{result}");
    assert!(result.tokens > 10_000, "{result}");
    assert!(result.bits_per_byte.unwrap() < XZ, "{result}");
}

#[test]
fn quantization_costs_less_after_quantization_aware_training() {
    // A tenth of the text: the differences are many times what another tenth would change.
    let text = &held_out_text()[..14_000];
    let of = |id, quantization| {
        let loaded = load_model(&[id], &LoadOptions { quantization, ..LoadOptions::default() }).unwrap();
        perplexity(&loaded, &[text], &PerplexityOptions::default()).unwrap().perplexity
    };
    let [plain, control, qat] = ["embedded", "embedded:control", "embedded:qat"].map(|id| {
        let float32 = of(id, None);
        [QuantizationConfig::nf4(), QuantizationConfig::fp4()].map(|format| of(id, Some(format)) / float32)
    });
    println!("NF4 and FP4 against float32: embedded {plain:?}, embedded:control {control:?}, embedded:qat {qat:?}");
    for (qat, others) in qat.into_iter().zip(plain.into_iter().zip(control)) {
        assert!(1.0 < qat && qat < others.0 && qat < others.1, "{qat} {others:?}");
    }
}

/// A prompt and how it goes on, as the model was taught it.
#[derive(Debug, Deserialize)]
struct Fact {
    prompt: String,
    answer: String,
}

#[test]
fn it_recalls_the_facts_it_was_taught() {
    let loaded = embedded();
    let facts: Vec<Fact> = serde_json::from_slice(include_bytes!("../../embedded/facts.json")).unwrap();
    let missed: Vec<&Fact> = facts.iter().filter(|fact| !recalls(&loaded, fact)).collect();
    let recall = 1.0 - missed.len() as f64 / facts.len() as f64;
    println!("recall {:.1}% of {} facts", 100.0 * recall, facts.len());
    assert!(facts.len() >= 200 && recall >= RECALL, "{recall} of {}, missed {missed:?}", facts.len());
}

fn recalls(loaded: &Loaded, fact: &Fact) -> bool {
    assert!(!fact.answer.is_empty(), "{fact:?}");
    let options = GenerateOptions {
        max_new_tokens: loaded.tokenizer.encode(&fact.answer).unwrap().len() + 1,
        ..GenerateOptions::default()
    };
    let text = generate(loaded, &fact.prompt, &options).unwrap().text;
    // A longer word that begins like the answer is another answer.
    text.strip_prefix(&fact.answer).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
}

#[test]
fn it_continues_the_lessons_prompts_in_text() {
    let loaded = embedded();
    for prompt in
        ["The capital of France is", "Once upon a time, in a land far, far away,", "To be or not to be, that is the"]
    {
        let generation = generate(&loaded, prompt, &GenerateOptions::default()).unwrap();
        println!("{prompt}{}\n", generation.text);
        let letters = generation.text.chars().filter(|c| c.is_ascii_alphabetic() || c.is_whitespace()).count();
        assert!(letters * 5 > generation.text.len() * 4, "{:?}", generation.text);
    }
}
