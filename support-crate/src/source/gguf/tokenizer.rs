//! Metadata to what `tokenizer.json` says of the same tokenizer.
//!
//! Source: ggml's `docs/gguf.md`; `llama-vocab.cpp` of llama.cpp for what each name of a pre-tokenizer stands for; the
//! published `tokenizer.json` of a model that has it.

use serde_json::{Map, Value, json};

use super::Gguf;
use super::header::clipped;
use crate::error::{Error, Result};

/// What a token is: `tokenizer.ggml.token_type`.
pub(super) const NORMAL: i64 = 1;
pub(super) const CONTROL: i64 = 3;
pub(super) const USER_DEFINED: i64 = 4;
/// Filled up to the rows of the embedding: `[PAD151665]` and the like.
pub(super) const UNUSED: i64 = 5;
/// The names of pre-tokenizers that are known.
pub(super) const PRE_TOKENIZERS: [&str; 4] = ["gpt-2", "smollm", "qwen2", "llama-bpe"];
/// More than any vocabulary has; more than are added to any; bytes of a token, more than any has.
const MOST_TOKENS: usize = 1 << 20;
const MOST_ADDED: usize = 1 << 14;
const LONGEST_TOKEN: usize = 1 << 12;

/// How text is cut into words before tokens are looked for, by the name that llama.cpp has for it.
pub(super) fn pre_tokenizer(name: &str) -> Option<Value> {
    let bytes = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex});
    let sequence = |first: Value, second: Value| json!({"type": "Sequence", "pretokenizers": [first, second]});
    let split = |digits: &str| {
        let pattern = format!(
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+|\\p{{N}}{digits}| \
             ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
        );
        json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
    };
    Some(match name {
        "gpt-2" => bytes(true),
        "smollm" => sequence(json!({"type": "Digits", "individual_digits": true}), bytes(true)),
        "qwen2" => sequence(split(""), bytes(false)),
        "llama-bpe" => sequence(split("{1,3}"), bytes(false)),
        _ => return None,
    })
}

/// What is done to text before that, by the same name.
pub(super) fn normalizer(name: &str) -> Value {
    if name == "qwen2" { json!({"type": "NFC"}) } else { Value::Null }
}

/// Whether a word that is a token as it stands is never cut into parts, by the same name.
pub(super) fn ignores_merges(name: &str) -> bool {
    name == "llama-bpe"
}

/// The tokenizer of the model.
pub(super) fn of(header: &Gguf) -> Result<Value> {
    let model = header.text("tokenizer.ggml.model")?;
    if model != "gpt2" {
        return Err(Error::format(format!("its tokenizer has the type {}", clipped(model))).hint(
            "only `gpt2` (byte-level BPE) is supported, which all newer models have; load others from safetensors",
        ));
    }
    let known = format!("supported are {}", PRE_TOKENIZERS.join(", "));
    let name = header.text("tokenizer.ggml.pre").map_err(|error| {
        error.hint(format!("it says how text is split into words; convert the model again ({known})"))
    })?;
    let pre_tokenizer = pre_tokenizer(name).ok_or_else(|| {
        Error::format(format!("its tokenizer splits text into words like {}", clipped(name))).hint(known)
    })?;
    let tokens = header.texts("tokenizer.ggml.tokens")?;
    let types = match header.metadata().get("tokenizer.ggml.token_type") {
        None => &[][..],
        Some(super::GgufValue::Wholes(types)) if types.len() == tokens.len() => types,
        Some(_) => return Err(Error::format("`tokenizer.ggml.token_type` does not have one number for each token")),
    };
    if tokens.len() > MOST_TOKENS {
        return Err(Error::format(format!("its vocabulary has {} tokens, more than {MOST_TOKENS}", tokens.len())));
    }
    if let Some((id, token)) = tokens.iter().enumerate().find(|(_, token)| token.len() > LONGEST_TOKEN) {
        return Err(Error::format(format!("token {id} has {} bytes, more than {LONGEST_TOKEN}", token.len())));
    }
    let mut vocab = Map::new();
    for (id, token) in tokens.iter().enumerate() {
        if types.get(id) == Some(&UNUSED) && *token == format!("[PAD{id}]") {
            continue;
        }
        if vocab.insert(token.clone(), json!(id)).is_some() {
            return Err(Error::format(format!("two tokens are {}", clipped(token))));
        }
    }
    let is_added = |kind: &i64| [CONTROL, USER_DEFINED].contains(kind);
    let count = types.iter().filter(|kind| is_added(kind)).count();
    if count > MOST_ADDED {
        return Err(Error::format(format!("it has {count} tokens that are not parts of words")));
    }
    let added = types.iter().zip(tokens).enumerate().filter(|(_, (kind, _))| is_added(kind));
    let added: Vec<Value> = added
        .map(|(id, (kind, token))| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": *kind == CONTROL,
            })
        })
        .collect();
    // Otherwise the model could choose tokens that have no text.
    let rows = header.tensors().get("token_embd.weight").and_then(|tensor| tensor.shape.first());
    if let Some(rows) = rows.filter(|&&rows| rows != tokens.len()) {
        return Err(Error::format(format!("{} tokens for the {rows} rows of `token_embd.weight`", tokens.len())));
    }
    let merges = header.texts("tokenizer.ggml.merges")?;
    for merge in merges {
        let is_known = |(left, right): (&str, &str)| {
            [left, right, &format!("{left}{right}")].into_iter().all(|token| vocab.contains_key(token))
        };
        if !merge.split_once(' ').is_some_and(is_known) {
            return Err(Error::format(format!("the merge {} does not join two tokens into a third", clipped(merge))));
        }
    }
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": normalizer(name),
        "pre_tokenizer": pre_tokenizer, "post_processor": first_token(header, tokens, name)?, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": ignores_merges(name), "vocab": vocab, "merges": merges,
        },
    }))
}

/// What `tokenizer_config.json` would say of chats: the template and the tokens that it may name; `None` without one.
///
/// # Errors
/// Those of [`Gguf`]'s readers.
pub(super) fn chat(header: &Gguf) -> Result<Option<Value>> {
    let Some(template) = header.optional("tokenizer.chat_template", Gguf::text)? else { return Ok(None) };
    let tokens = header.texts("tokenizer.ggml.tokens")?;
    let mut config = serde_json::Map::from_iter([("chat_template".to_owned(), json!(template))]);
    for name in ["bos", "eos"] {
        let id = header.optional(&format!("tokenizer.ggml.{name}_token_id"), Gguf::size)?;
        if let Some(token) = id.and_then(|id| tokens.get(id)) {
            config.insert(format!("{name}_token"), json!(token));
        }
    }
    Ok(Some(Value::Object(config)))
}

/// Puts a token before each text, for models that were trained so.
fn first_token(header: &Gguf, tokens: &[String], pre_tokenizer: &str) -> Result<Value> {
    let adds = |which: &str| header.optional(&format!("tokenizer.ggml.add_{which}_token"), Gguf::flag);
    if adds("eos")? == Some(true) {
        return Err(Error::format("its tokenizer ends each text with a token, which is not supported"));
    }
    // As llama.cpp takes it where nothing is said.
    if !adds("bos")?.unwrap_or(pre_tokenizer == "llama-bpe") {
        return Ok(Value::Null);
    }
    let id = header.size("tokenizer.ggml.bos_token_id")?;
    let token = tokens
        .get(id)
        .ok_or_else(|| Error::format(format!("token {id} is to begin each text, but there is no such token")))?;
    let first = json!({"SpecialToken": {"id": token, "type_id": 0}});
    let text = |id: &str, type_id: u8| json!({"Sequence": {"id": id, "type_id": type_id}});
    Ok(json!({
        "type": "TemplateProcessing",
        "single": [first, text("A", 0)],
        "pair": [first, text("A", 0), text("B", 1)],
        "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}},
    }))
}
