//! Vocabularies with scores, and the angles of Llama 3.1: what older and newer Llamas have in place of merges and numbers.

use std::fs;
use std::path::Path;

use quantlab::error::ErrorKind;
use quantlab::generate::TextStream;
use quantlab::model::{Engine, LoadOptions, LogitPositions, TokenBatch};
use serde::Deserialize;

use super::writer::{Case as WriterCase, F32, Writer, floats, llama};
use super::{dequantized, load};
use crate::common::{Case, distance, golden};

/// A text, and what SentencePiece itself makes of it.
#[derive(Deserialize)]
struct Text {
    text: String,
    ids: Vec<u32>,
    decoded: String,
}

#[test]
fn texts_become_the_pieces_that_sentencepiece_makes() {
    let loaded = load(Path::new("tests/golden/sentencepiece-tiny.gguf"), &dequantized()).unwrap();
    let texts: Vec<Text> = serde_json::from_slice(&fs::read("tests/golden/sentencepiece-tiny.json").unwrap()).unwrap();
    assert!(texts.len() > 100);
    for Text { text, ids, decoded } in texts {
        let found = loaded.tokenizer.encode(&text).unwrap();
        // Each text begins with the model's own first token.
        assert_eq!(found[1..], ids, "{text:?}");
        assert_eq!(found[0], 1);
        // Of a text that begins with several spaces, one is the tokenizer's own.
        assert_eq!(loaded.tokenizer.decode(&ids).unwrap(), decoded, "{text:?}");
    }
    let marked = loaded.tokenizer.encode("<|user|>hi").unwrap();
    assert_eq!(marked[..2], [1, 3], "a symbol of the user's is one token: {marked:?}");
    loaded.model.forward(&TokenBatch::single(&marked).unwrap(), None, LogitPositions::Last).unwrap();
}

#[test]
fn a_continuation_keeps_the_space_that_it_begins_with() {
    let tokenizer = load(Path::new("tests/golden/sentencepiece-tiny.gguf"), &dequantized()).unwrap().tokenizer;
    let text = "once upon a time, there was a fox \u{1f98a} by the river";
    let ids = tokenizer.encode(text).unwrap();
    // Not within the fox, whose four bytes are a token each.
    let whole = |cut: &usize| !tokenizer.decode(&ids[..*cut]).unwrap().contains(char::REPLACEMENT_CHARACTER);
    for cut in (2..ids.len()).filter(whole) {
        let (prompt, new) = ids.split_at(cut);
        let mut stream = TextStream::after(&tokenizer, prompt).unwrap();
        let pieces: String = new.iter().map(|&id| stream.push(id).unwrap()).collect();
        let continued = tokenizer.decode(prompt).unwrap() + &pieces + &stream.finish().unwrap();
        assert_eq!(continued, text, "after {cut} tokens");
    }
}

/// transformers computes them from the numbers in `config.json`.
#[test]
fn divisors_of_frequencies_are_those_of_the_config() {
    let case = Case::read(golden().join("llama3-tiny"));
    for engine in Engine::ALL {
        let options = LoadOptions { engine: Some(engine), ..LoadOptions::default() };
        let loaded = load(Path::new("tests/golden/llama3-tiny.gguf"), &options).unwrap();
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap();
        let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
        let distance = distance(logits.values(), &case.values("logits"));
        assert!(distance < 1e-4, "{engine}: {distance}");
        assert!(loaded.unused_tensors.is_empty(), "{:?}", loaded.unused_tensors);
    }
}

const PIECES: [&str; 8] = ["<unk>", "<s>", "a", "b", "\u{2581}", "ab", "\u{2581}ab", "c"];

fn scored() -> Writer {
    let mut file = llama();
    file.set("tokenizer.ggml.model", "llama");
    file.remove("tokenizer.ggml.pre");
    file.remove("tokenizer.ggml.merges");
    file.set("tokenizer.ggml.tokens", PIECES.to_vec());
    file.set("tokenizer.ggml.scores", [0.0, 0.0, -3.0, -4.0, -5.0, -1.0, -2.0, -6.0_f32].to_vec());
    file.set("tokenizer.ggml.token_type", vec![2, 3, 1, 1, 1, 1, 1, 1]);
    file.set("tokenizer.ggml.bos_token_id", 1_u32);
    file.set("tokenizer.ggml.eos_token_id", 1_u32);
    for name in ["token_embd.weight", "output.weight"] {
        file.add(name, &[8, 32], F32);
    }
    file
}

#[test]
fn what_a_file_says_of_spaces_and_first_tokens_counts() {
    let ids = |change: fn(&mut Writer), text: &str| {
        let mut file = scored();
        change(&mut file);
        file.load().unwrap().tokenizer.encode(text).unwrap()
    };
    assert_eq!(ids(|_| (), "ab ab"), [1, 6, 6]);
    assert_eq!(ids(|file| file.set("tokenizer.ggml.add_space_prefix", false), "ab ab"), [1, 5, 6]);
    assert_eq!(ids(|file| file.set("tokenizer.ggml.add_bos_token", false), "ab"), [6]);
    assert_eq!(ids(|_| (), "axyb"), [1, 4, 2, 0, 3], "without bytes, what is unknown is one token");
    // The higher score is joined first, wherever it stands.
    assert_eq!(ids(|file| file.set("tokenizer.ggml.scores", vec![-1.0_f32; 8]), ""), [1]);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let cases: [WriterCase; 8] = [
        ("`tokenizer.ggml.scores` does not have one number for each token", |file| {
            file.remove("tokenizer.ggml.scores")
        }),
        ("does not have one number for each token", |file| file.set("tokenizer.ggml.scores", vec![0.0_f32; 7])),
        ("the score of token 7, \"c\", is NaN", |file| {
            file.set("tokenizer.ggml.scores", [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, f32::NAN].to_vec());
        }),
        ("token 8 is to stand for what is unknown", |file| file.set("tokenizer.ggml.unknown_token_id", 8_u32)),
        ("joins spaces that follow each other", |file| file.set("tokenizer.ggml.remove_extra_whitespaces", true)),
        ("`rope_freqs.weight` is F32 of shape [2, 4]", |file| file.add("rope_freqs.weight", &[2, 4], F32)),
        ("`rope_freqs.weight` has the number 0", |file| {
            file.add_bytes("rope_freqs.weight", &[8], F32, floats([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0]));
        }),
        ("scaled twice", |file| {
            file.add("rope_freqs.weight", &[8], F32);
            file.set("llama.rope.scaling.factor", 4.0_f32);
        }),
    ];
    scored().load().unwrap();
    for (said, change) in cases {
        let mut file = scored();
        change(&mut file);
        let error = file.load().expect_err(said);
        assert_eq!(error.kind(), ErrorKind::Format, "{error}");
        assert!(error.to_string().contains(said), "{error}, not {said}");
    }
    let mut file = scored();
    file.add("rope_freqs.weight", &[7], F32);
    let error = file.load().unwrap_err().to_string();
    assert!(error.contains("7 numbers") && error.contains("8 frequencies"), "{error}");
}
