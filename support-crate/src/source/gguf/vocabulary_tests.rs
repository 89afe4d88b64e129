use serde_json::json;

use super::super::{GgmlType, Gguf, TensorPlan, header, tokenizer};
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
    of_tokenizer(tokenizer, &config, 8, Some(4), ends)
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
    assert_eq!(name(&tokenizer).unwrap(), "smollm");
    values(&tokenizer, &[]).unwrap();
}

#[test]
fn what_llama_cpp_has_no_name_for_is_refused() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 11] = [
        ("splits text into words as none", |file| file["pre_tokenizer"] = json!({"type": "Whitespace"})),
        ("splits text into words as none", |file| file["normalizer"] = json!({"type": "Lowercase"})),
        ("splits text into words as none", |file| file["model"]["ignore_merges"] = json!(true)),
        ("of type \"Unigram\"", |file| file["model"]["type"] = json!("Unigram")),
        ("or not byte-level", |file| file["decoder"] = json!({"type": "Metaspace"})),
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
