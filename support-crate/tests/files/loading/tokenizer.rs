//! `tokenizer.json`, and the token that ends a text.

use std::fs;

use quantlab::generate::{FinishReason, GenerateOptions, generate};
use serde_json::{Value, json};

use super::family::FAMILIES;
use crate::common::copy::{TOKENIZER, expect};

#[test]
fn a_file_that_is_not_a_tokenizer() {
    for family in FAMILIES {
        let copy = family.copy();
        for text in ["", "{}", "[1, 2]", "{\"model\": {\"type\": \"BPE\"}}"] {
            fs::write(copy.path(TOKENIZER), text).unwrap();
            expect(&copy.load(), &["tokenizer.json", "is not a tokenizer"]);
        }
    }
}

#[test]
fn a_tokenizer_that_is_cut_short() {
    for family in FAMILIES {
        let copy = family.copy();
        let whole = fs::read(copy.path(TOKENIZER)).unwrap();
        // Among others in the decoder, where the tokenizers library panics.
        for length in (0..whole.len()).step_by(100) {
            fs::write(copy.path(TOKENIZER), &whole[..length]).unwrap();
            expect(&copy.load(), &["tokenizer.json", "is not a tokenizer", "EOF"]);
        }
    }
}

#[test]
fn a_tokenizer_that_its_library_panics_on() {
    for family in FAMILIES {
        let copy = family.copy();
        let broken = json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" });
        copy.change_json(TOKENIZER, |tokenizer| tokenizer["normalizer"] = broken);
        expect(&copy.load(), &["is not a tokenizer: the tokenizers library panicked", "may be damaged"]);
        // Not before there is a text.
        copy.change_json(TOKENIZER, |tokenizer| tokenizer["normalizer"] = json!({ "type": "Prepend", "prepend": "" }));
        let error = copy.load().unwrap().tokenizer.encode("the quick brown fox").unwrap_err().to_string();
        assert!(error.contains("cannot tokenize the text: the tokenizers library panicked"), "{error}");
    }
}

/// A terabyte for a letter, or for a token.
#[test]
fn a_tokenizer_that_makes_texts_longer_without_end() {
    let doubling = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" });
    for family in FAMILIES {
        let changed = |part: &str, value: Value| {
            let copy = family.copy();
            copy.change_json(TOKENIZER, |tokenizer| tokenizer[part] = value);
            copy.load()
        };
        let steps = vec![doubling.clone(); 40];
        let refused = changed("normalizer", json!({ "type": "Sequence", "normalizers": steps }));
        expect(&refused, &["`normalizer` and `pre_tokenizer` can make a text 2199023255552 times as long"]);
        let steps = vec![json!({ "type": "Prepend", "prepend": "x".repeat(10_000) })];
        let refused = changed("normalizer", json!({ "type": "Sequence", "normalizers": steps }));
        expect(&refused, &["tokenizer.json", "is not a tokenizer: the steps of `normalizer`", "fill the memory"]);
        let steps = vec![doubling.clone(); 40];
        let refused = changed("decoder", json!({ "type": "Sequence", "decoders": steps }));
        expect(&refused, &["the steps of `decoder` can make a text 1099511627776 times as long"]);
        // As those of SentencePiece are.
        let steps = json!([
            { "type": "Prepend", "prepend": "\u{2581}" },
            { "type": "Replace", "pattern": { "String": " " }, "content": "\u{2581}" }
        ]);
        changed("normalizer", json!({ "type": "Sequence", "normalizers": steps })).unwrap();
    }
}

/// transformers puts them there, whatever `tokenizer.json` does.
#[test]
fn tokens_at_the_ends_of_texts_that_only_the_config_wants() {
    for family in FAMILIES {
        let copy = family.copy();
        let config = json!({ "add_bos_token": true, "bos_token": "a", "add_eos_token": false, "eos_token": "b" });
        fs::write(copy.path("tokenizer_config.json"), config.to_string()).unwrap();
        let loaded = copy.load().unwrap();
        let said = "texts do not begin with a, as `add_bos_token` of tokenizer_config.json wants";
        assert_eq!(loaded.notes, [said]);
        assert!(loaded.summary().ends_with(&format!(" | {said}")), "{}", loaded.summary());
        let id = loaded.tokenizer.token_to_id("a").unwrap();
        let piece = |(kind, id): (&str, &str)| json!({ kind: { "id": id, "type_id": 0 } });
        let [first, text, other] = [("SpecialToken", "a"), ("Sequence", "A"), ("Sequence", "B")].map(piece);
        copy.change_json(TOKENIZER, |tokenizer| {
            tokenizer["post_processor"] = json!({
                "type": "TemplateProcessing", "single": [first, text], "pair": [text, other],
                "special_tokens": { "a": { "id": "a", "ids": [id], "tokens": ["a"] } },
            });
        });
        assert!(copy.load().unwrap().notes.is_empty());
        // No chat is wanted yet.
        fs::write(copy.path("tokenizer_config.json"), "{").unwrap();
        copy.load().unwrap();
    }
}

#[test]
fn a_tokenizer_without_tokens() {
    for family in FAMILIES {
        let copy = family.copy();
        copy.change_json(TOKENIZER, |tokenizer| {
            tokenizer["model"]["vocab"] = json!({});
            tokenizer["model"]["merges"] = json!([]);
            tokenizer["added_tokens"] = json!([]);
        });
        expect(&copy.load(), &["tokenizer.json", "without tokens"]);
    }
}

#[test]
fn a_vocabulary_that_is_smaller_than_a_token_id() {
    for family in FAMILIES {
        for id in [384_u32, u32::MAX] {
            let copy = family.copy();
            copy.change_json(TOKENIZER, |tokenizer| tokenizer["model"]["vocab"]["zebra"] = json!(id));
            let token = format!("token \"zebra\" has id {id}");
            expect(&copy.load(), &["tokenizer.json", "does not match the weights", &token, "has 384 tokens"]);
        }
    }
}

/// As in Gemma 3's models without images. Several would be those of another model, or of one that was not enlarged.
#[test]
fn a_mark_that_the_model_has_no_row_for() {
    for family in FAMILIES {
        let copy = family.copy();
        let add = |ids: std::ops::Range<u32>| {
            copy.change_json(TOKENIZER, |tokenizer| {
                let mark = |id| {
                    json!({ "id": id, "content": format!("<{id}>"), "single_word": false, "lstrip": false,
                            "rstrip": false, "normalized": false, "special": true })
                };
                tokenizer["added_tokens"].as_array_mut().unwrap().extend(ids.map(mark));
            });
        };
        // The vocabulary ends at 359, and the model's rows at 383.
        add(360..385);
        let loaded = copy.load().unwrap();
        let options = GenerateOptions { max_new_tokens: 2, ..GenerateOptions::default() };
        generate(&loaded, "the quick <383> fox", &options).unwrap();
        let error = generate(&loaded, "the quick <384> fox", &options).unwrap_err().to_string();
        assert!(error.contains("token id 384 is beyond the model's vocabulary of 384"), "{error}");
        add(385..386);
        expect(&copy.load(), &["does not match the weights: token \"<385>\" has id 385"]);
    }
}

/// No token ends a text then, so that it goes on for `max_new_tokens`.
#[test]
fn a_tokenizer_without_eos() {
    let without: [fn(&mut Value, &mut Value); 4] = [
        |config, _| drop(config.as_object_mut().unwrap().remove("eos_token_id")),
        |config, _| config["eos_token_id"] = Value::Null,
        |config, _| config["eos_token_id"] = json!(4_000_000_000_u32),
        // The config names a token that the tokenizer does not know, and the model never chooses.
        |config, tokenizer| {
            config["eos_token_id"] = json!(383);
            tokenizer["added_tokens"] = json!([]);
            tokenizer["model"]["vocab"].as_object_mut().unwrap().retain(|_, id| *id != 383);
            let vocab = tokenizer["model"]["vocab"].as_object().unwrap().clone();
            tokenizer["model"]["merges"].as_array_mut().unwrap().retain(|merge| {
                let merged: String = merge.as_array().unwrap().iter().map(|part| part.as_str().unwrap()).collect();
                vocab.contains_key(&merged)
            });
        },
    ];
    for family in FAMILIES {
        for without in without {
            let copy = family.copy();
            copy.change_json(TOKENIZER, |tokenizer| copy.change_config(|config| without(config, tokenizer)));
            let loaded = copy.load().unwrap();
            // The token is forbidden as long as there are fewer than `min_new_tokens`.
            for min_new_tokens in [0, 20] {
                let options = GenerateOptions { max_new_tokens: 20, min_new_tokens, ..GenerateOptions::default() };
                let generation = generate(&loaded, "the quick brown fox", &options).unwrap();
                assert_eq!((generation.tokens.len(), generation.finish_reason), (20, FinishReason::Length));
            }
        }
    }
}
