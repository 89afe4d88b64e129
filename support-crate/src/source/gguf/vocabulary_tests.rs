use serde_json::json;

use super::super::{GgmlType, Gguf, TensorPlan, header, sentencepiece, tokenizer};
use super::*;

/// A tokenizer that splits as `name` does, with a token before each text if `begins`.
fn file(name: &str, begins: bool) -> Value {
    let first = json!({"SpecialToken": {"id": "<s>", "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let template = json!({
        "type": "TemplateProcessing", "single": [first, text], "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [4], "tokens": ["<s>"]}},
    });
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": true});
    let added = |id: usize, content: &str, special: bool| json!({"id": id, "content": content, "special": special, "lstrip": false, "rstrip": false, "normalized": false});
    json!({
        "added_tokens": [added(4, "<s>", true), added(5, "<tool>", false)],
        "normalizer": normalizer(name),
        "pre_tokenizer": pre_tokenizer(name),
        "post_processor": if begins { json!({"type": "Sequence", "processors": [byte_level, template]}) } else { byte_level },
        "decoder": {"type": "ByteLevel"},
        "model": {
            "type": "BPE", "unk_token": null, "ignore_merges": ignores_merges(name),
            "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": [["a", "b"]],
        },
    })
}

fn values(tokenizer: &Value, ends: &[u32]) -> Result<Vec<(String, GgufValue)>> {
    let config = json!({"eos_token": {"content": "<tool>"}, "unk_token": "<s>", "pad_token": null});
    of_tokenizer(tokenizer, &config, "llama", 8, Some(4), ends)
}

/// The tokenizer that a file with these values is read as.
fn read_again(values: Vec<(String, GgufValue)>) -> Value {
    let plan = TensorPlan { name: "token_embd.weight".to_owned(), kind: GgmlType::F32, shape: vec![8, 1] };
    let mut bytes = header(&values, &[plan]).unwrap();
    bytes.resize(bytes.len() + 32, 0);
    tokenizer::of(&Gguf::read(&bytes).unwrap()).unwrap()
}

#[test]
fn what_is_written_is_read_as_the_same_tokenizer() {
    for name in PRE_TOKENIZERS {
        for begins in [false, true] {
            let original = file(name, begins);
            let again = read_again(values(&original, &[5, 4]).unwrap());
            for part in ["pre_tokenizer", "normalizer"] {
                assert_eq!(again[part], original[part], "{name}");
            }
            // Added tokens are in the vocabulary too.
            let mut vocab = original["model"]["vocab"].clone();
            (vocab["<s>"], vocab["<tool>"]) = (json!(4), json!(5));
            assert_eq!(again["model"]["vocab"], vocab, "{name}");
            assert_eq!(again["model"]["merges"], json!(["a b"]), "{name}");
            assert_eq!(again["model"]["ignore_merges"], original["model"]["ignore_merges"], "{name}");
            let specials = |of: &Value| -> Vec<(Value, Value, Value)> {
                let added = of["added_tokens"].as_array().unwrap();
                added
                    .iter()
                    .map(|token| (token["id"].clone(), token["content"].clone(), token["special"].clone()))
                    .collect()
            };
            assert_eq!(specials(&again), specials(&original), "{name}");
            let first = again["post_processor"]["single"][0]["SpecialToken"]["id"].as_str();
            assert_eq!(first, begins.then_some("<s>"), "{name}");
        }
    }
}

#[test]
fn special_tokens_have_their_roles() {
    let values: BTreeMap<String, GgufValue> = values(&file("gpt-2", false), &[4, 5]).unwrap().into_iter().collect();
    let id = |role: &str| match values.get(&format!("tokenizer.ggml.{role}_token_id")) {
        Some(GgufValue::Whole(id)) => Some(*id),
        _ => None,
    };
    let roles = ["bos", "eos", "eot", "eom", "unknown", "padding"].map(id);
    assert_eq!(roles, [Some(4), Some(5), Some(4), None, Some(4), None]);
    let types = &values["tokenizer.ggml.token_type"];
    assert_eq!(*types, GgufValue::Wholes(vec![1, 1, 1, 1, CONTROL, USER_DEFINED, UNUSED, UNUSED]));
}

#[test]
fn defaults_that_a_file_leaves_out_are_the_same_tokenizer() {
    let mut tokenizer = file("smollm", false);
    tokenizer["pre_tokenizer"]["pretokenizers"][1] = json!({"type": "ByteLevel", "add_prefix_space": false});
    tokenizer["normalizer"] = json!({"type": "Sequence", "normalizers": []});
    tokenizer["model"]["merges"] = json!(["a b"]);
    // As GPT-2's own file.
    tokenizer["model"].as_object_mut().unwrap().remove("type");
    assert_eq!(Kind::of(&tokenizer).unwrap(), Kind::Bytes { pre: "smollm" });
    values(&tokenizer, &[]).unwrap();
}

#[test]
fn what_llama_cpp_has_no_name_for_is_refused() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 12] = [
        ("begins each text with a token that the model has no row for", |file| {
            file["post_processor"] = json!({"type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                "special_tokens": {"<s>": {"ids": [9]}}});
        }),
        ("splits text into words as none", |file| file["pre_tokenizer"] = json!({"type": "Whitespace"})),
        ("splits text into words as none", |file| file["normalizer"] = json!({"type": "Lowercase"})),
        ("splits text into words as none", |file| file["model"]["ignore_merges"] = json!(true)),
        ("of type \"Unigram\"", |file| file["model"]["type"] = json!("Unigram")),
        ("or has another decoder", |file| file["decoder"] = json!({"type": "Metaspace"})),
        ("a BPE with `end_of_word_suffix`", |file| file["model"]["end_of_word_suffix"] = json!("</w>")),
        ("\"<s>\" is found with `lstrip`", |file| file["added_tokens"][0]["lstrip"] = json!(true)),
        ("adds other tokens to a text", |file| file["post_processor"] = json!({"type": "BertProcessing"})),
        ("\"ab\" has id 9, but the model has 8 tokens", |file| file["model"]["vocab"]["ab"] = json!(9)),
        ("two tokens have id 1", |file| file["model"]["vocab"]["ab"] = json!(1)),
        ("is no merge of two tokens", |file| file["model"]["merges"][0] = json!("a b c")),
    ];
    for (said, change) in cases {
        let mut tokenizer = file("gpt-2", false);
        change(&mut tokenizer);
        let error = values(&tokenizer, &[]).expect_err(said);
        assert!(error.to_string().contains(said), "{error}, not {said}");
    }
    let error = values(&file("gpt-2", false), &[0, 1, 2, 3]).unwrap_err();
    assert!(error.to_string().contains("4 tokens end a text"), "{error}");
}

/// A tokenizer of SentencePiece's kind: three words after the tokens for bytes, of which Gemma has one otherwise.
fn pieces(begins_with_space: bool) -> Value {
    let (normalizer, decoder) = sentencepiece::of_spaces(begins_with_space);
    let mut vocab = json!({"<unk>": 0, "\t": 10});
    for byte in (0..=255).filter(|byte| *byte != 9) {
        vocab[format!("<0x{byte:02X}>")] = json!(byte + 1);
    }
    for (id, piece) in ["a", "b", "\u{2581}", "ab", "\u{2581}\u{2581}", "\u{2581}ab", "z"].into_iter().enumerate() {
        vocab[piece] = json!(257 + id);
    }
    let added = |id: usize, content: &str, special: bool| json!({"id": id, "content": content, "special": special, "normalized": false});
    json!({
        "added_tokens": [added(261, "\u{2581}\u{2581}", false), added(264, "<tool>", false), added(265, "</s>", true)],
        "normalizer": normalizer, "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
        "model": {
            "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocab,
            "merges": [["a", "b"], ["\u{2581}", "ab"], ["\u{2581}", "\u{2581}"]],
        },
    })
}

fn values_of_pieces(tokenizer: &Value, family: &str) -> Result<Vec<(String, GgufValue)>> {
    of_tokenizer(tokenizer, &Value::Null, family, 267, None, &[265])
}

#[test]
fn scores_are_the_order_of_merges() {
    for begins_with_space in [true, false] {
        let values = values_of_pieces(&pieces(begins_with_space), "llama").unwrap();
        let values: BTreeMap<&str, &GgufValue> =
            values.iter().map(|(key, value)| (key.trim_start_matches("tokenizer.ggml."), value)).collect();
        assert_eq!(*values["model"], GgufValue::Text("llama".to_owned()));
        assert_eq!(*values["add_space_prefix"], GgufValue::Bool(begins_with_space));
        assert_eq!(*values["unknown_token_id"], GgufValue::Whole(0));
        let (GgufValue::Floats(scores), GgufValue::Wholes(types)) = (values["scores"], values["token_type"]) else {
            panic!("{values:?}")
        };
        // What is made first is joined first; then what nothing makes, in the order of the vocabulary, from the tab on.
        assert_eq!(scores[257..], [-4.0, -5.0, -6.0, 0.0, -2.0, -1.0, -7.0, 0.0, 0.0, 0.0]);
        assert_eq!((scores[0], scores[10]), (0.0, -3.0));
        assert_eq!((types[0], types[1], types[10], types[256]), (2, 6, NORMAL, 6));
        // Two spaces are a piece even if they were added.
        assert_eq!(types[261..], [NORMAL, NORMAL, NORMAL, USER_DEFINED, CONTROL, UNUSED]);
    }
}

#[test]
fn pieces_are_read_as_the_same_tokenizer() {
    for begins_with_space in [true, false] {
        let original = pieces(begins_with_space);
        let values = values_of_pieces(&original, "gemma3").unwrap();
        let plan = TensorPlan { name: "token_embd.weight".to_owned(), kind: GgmlType::F32, shape: vec![267, 1] };
        let mut bytes = header(&values, &[plan]).unwrap();
        bytes.resize(bytes.len() + 4 * 267, 0);
        let again = tokenizer::of(&Gguf::read(&bytes).unwrap()).unwrap();
        assert_eq!(Kind::of(&again).unwrap(), Kind::Pieces { begins_with_space });
        assert_eq!(again["model"]["merges"], original["model"]["merges"]);
        assert_eq!(again["added_tokens"].as_array().unwrap().len(), 2);
        // Gemma's own splits at spaces that are there no more.
        let mut of_gemma = original.clone();
        of_gemma["pre_tokenizer"] =
            json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"});
        assert_eq!(values_of_pieces(&of_gemma, "gemma3").unwrap(), values);
    }
}

#[test]
fn pieces_that_llama_cpp_would_join_otherwise_are_refused() {
    type Change = fn(&mut Value);
    let cases: [(&str, &str, Change); 11] = [
        ("llama", "does not have a token for each byte", |file| file["model"]["byte_fallback"] = json!(false)),
        ("llama", "does not have a token for each byte", |file| {
            drop(file["model"]["vocab"].as_object_mut().unwrap().remove("<0xFF>"));
        }),
        ("llama", "does not join \"a\" and \"b\"", |file| {
            drop(file["model"]["merges"].as_array_mut().unwrap().remove(0));
        }),
        ("llama", "a BPE with `ignore_merges`", |file| file["model"]["ignore_merges"] = json!(true)),
        ("llama", "only where there is none (`Metaspace`)", |file| {
            file["pre_tokenizer"] = json!({"type": "Metaspace", "prepend_scheme": "first", "split": false});
        }),
        ("llama", "changes or splits text", |file| file["pre_tokenizer"] = json!({"type": "Whitespace"})),
        ("llama", "changes or splits text", |file| file["normalizer"] = json!({"type": "NFKC"})),
        ("llama", "changes or splits text", |file| drop(file["decoder"]["decoders"].as_array_mut().unwrap().pop())),
        ("llama", "\"<tool>\" is found with `rstrip`", |file| file["added_tokens"][1]["rstrip"] = json!(true)),
        ("phi3", "\"\u{2581}\u{2581}\" is found without `rstrip`", |_| ()),
        ("llama", "\"<tool>\" is found with `normalized`", |file| file["added_tokens"][1]["normalized"] = json!(true)),
    ];
    for (family, said, change) in cases {
        let mut tokenizer = pieces(true);
        change(&mut tokenizer);
        let error = values_of_pieces(&tokenizer, family).expect_err(said);
        assert!(error.to_string().contains(said), "{error}, not {said}");
    }
    // Marks of Phi-3 take the blanks after them, and Gemma's are found in a text as it stands.
    let mut of_phi3 = pieces(true);
    of_phi3["added_tokens"].as_array_mut().unwrap().iter_mut().for_each(|token| token["rstrip"] = json!(true));
    values_of_pieces(&of_phi3, "phi3").unwrap();
    let mut of_gemma = pieces(false);
    of_gemma["added_tokens"][1]["normalized"] = json!(true);
    values_of_pieces(&of_gemma, "gemma2").unwrap();
}

#[test]
fn what_the_model_has_no_number_for_is_left_out() {
    let mut tokenizer = file("gpt-2", false);
    let with = values(&tokenizer, &[]).unwrap();
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    added.push(json!({"id": 8, "content": "<image>", "special": true}));
    assert_eq!(values(&tokenizer, &[]).unwrap(), with);
}

/// As GPT-4o's file has it: to remove what is between words is to isolate them.
#[test]
fn words_are_the_same_whichever_side_is_named() {
    let mut tokenizer = file("gpt-4o", false);
    let split = &mut tokenizer["pre_tokenizer"]["pretokenizers"][0];
    (split["behavior"], split["invert"]) = (json!("Removed"), json!(true));
    assert_eq!(Kind::of(&tokenizer).unwrap(), Kind::Bytes { pre: "gpt-4o" });
    tokenizer["pre_tokenizer"]["pretokenizers"][0]["invert"] = json!(false);
    assert!(Kind::of(&tokenizer).is_err());
}
