//! A tokenizer to what the metadata of a GGUF file say of it: the way back from `tokenizer`.
//!
//! Source: as there; `get_vocab_base`, `LlamaHfVocab` and `SpecialVocab` of llama.cpp's `conversion/base.py` and package
//! `gguf`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::GgufValue;
use super::config::ENDS;
use super::header::clipped;
use super::sentencepiece::{SPACE, of_spaces, scores};
use super::tokenizer::{CONTROL, NORMAL, PRE_TOKENIZERS, UNUSED, USER_DEFINED};
use super::tokenizer::{ignores_merges, normalizer, pre_tokenizer, takes_blanks};
use crate::error::{Context, Error, Result};
use crate::source::{ModelFiles, special_token};

/// The keys and values for a model of a family with so many rows in its embedding, whose config says that `ends` end a text,
/// and perhaps which token begins one.
///
/// # Errors
/// Files that cannot be read; a tokenizer that does not work as any that llama.cpp and this library know.
pub(crate) fn vocabulary(
    files: &ModelFiles,
    family: &str,
    rows: usize,
    begin: Option<u32>,
    ends: &[u32],
) -> Result<Vec<(String, GgufValue)>> {
    let tokenizer: Value = serde_json::from_slice(&files.tokenizer.read()?).context(|| files.tokenizer.to_string())?;
    let config = files.tokenizer_config()?;
    let mut values =
        of_tokenizer(&tokenizer, &config, family, rows, begin, ends).context(|| files.tokenizer.to_string())?;
    if let Some(template) = files.chat_template(&config)? {
        values.push(("tokenizer.chat_template".to_owned(), GgufValue::Text(template)));
    }
    Ok(values)
}

fn of_tokenizer(
    tokenizer: &Value,
    config: &Value,
    family: &str,
    rows: usize,
    begin: Option<u32>,
    ends: &[u32],
) -> Result<Vec<(String, GgufValue)>> {
    let kind = Kind::of(tokenizer)?;
    let model = &tokenizer["model"];
    let mut tokens = tokens(tokenizer, rows, (family, kind))?;
    let pairs = pairs(&model["merges"])?;
    let mut values = match kind {
        Kind::Bytes { pre } => vec![
            ("model", GgufValue::Text("gpt2".to_owned())),
            ("pre", GgufValue::Text(pre.to_owned())),
            ("merges", GgufValue::Texts(merges(&pairs)?)),
        ],
        Kind::Pieces { begins_with_space } => vec![
            ("model", GgufValue::Text("llama".to_owned())),
            ("pre", GgufValue::Text("default".to_owned())),
            ("scores", GgufValue::Floats(scores(model, &mut tokens, &pairs)?)),
            ("add_space_prefix", GgufValue::Bool(begins_with_space)),
        ],
    };
    let first = first_token(&tokenizer["post_processor"])?;
    let ids: BTreeMap<&str, usize> = tokens.iter().enumerate().map(|(id, (token, _))| (token.as_str(), id)).collect();
    let special =
        |role: &str| special_token(&config[format!("{role}_token")]).and_then(|token| ids.get(token)).copied();
    let is_token = |id: &usize| *id < rows;
    let config_begin = begin.map(|id| id as usize).filter(is_token);
    let mut ends: Vec<usize> = ends.iter().map(|&id| id as usize).filter(is_token).collect();
    match special("eos") {
        // The one that ends a message comes first, as chat templates name it.
        Some(end) if ends.contains(&end) || ends.is_empty() => {
            ends.retain(|&id| id != end);
            ends.insert(0, end);
        }
        _ => (),
    }
    if ends.len() > ENDS.len() {
        return Err(Error::input(format!(
            "{} tokens end a text, for which a GGUF file has {}",
            ends.len(),
            ENDS.len()
        ))
        .hint("leave the most common ones in `eos_token_id` of config.json"));
    }
    if first.is_some_and(|id| !is_token(&id)) {
        return Err(unknown("it begins each text with a token that the model has no row for".to_owned()));
    }
    let begin = first.or_else(|| special("bos")).or(config_begin);
    let unknown = model["unk_token"].as_str().and_then(|token| ids.get(token)).copied();
    let named = [("bos", begin), ("unknown", unknown.or_else(|| special("unk"))), ("padding", special("pad"))];
    let ends = ENDS.into_iter().zip(ends.into_iter().map(Some));
    let named = named.into_iter().chain(ends).filter_map(|(role, id)| Some((role, id?)));
    let named = named.map(|(role, id)| (format!("{role}_token_id"), GgufValue::Whole(id as i128)));
    let named: Vec<_> = named.collect();
    let (texts, types) = tokens.into_iter().unzip();
    values.extend([
        ("tokens", GgufValue::Texts(texts)),
        ("token_type", GgufValue::Wholes(types)),
        ("add_bos_token", GgufValue::Bool(first.is_some())),
    ]);
    let values = values.into_iter().map(|(key, value)| (key.to_owned(), value)).chain(named);
    Ok(values.map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).collect())
}

/// The kinds of tokenizers that a GGUF file can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Over bytes, with llama.cpp's name for how text is cut into words.
    Bytes { pre: &'static str },
    /// SentencePiece's.
    Pieces { begins_with_space: bool },
}

impl Kind {
    fn of(tokenizer: &Value) -> Result<Self> {
        let (model, decoder) = (&tokenizer["model"], &tokenizer["decoder"]);
        let has_pieces = decoder["type"] == "Sequence";
        // Files of the first GPT-2's time do not say.
        let kind = model["type"].as_str().unwrap_or(if model["merges"].is_array() { "BPE" } else { "unknown" });
        if kind != "BPE" || !has_pieces && decoder["type"] != "ByteLevel" {
            return Err(unknown(format!("it is of type {}, or has another decoder", clipped(kind))));
        }
        let is_unset = |value: &Value| value.is_null() || value == "" || *value == Value::Bool(false);
        let unset = ["dropout", "continuing_subword_prefix", "end_of_word_suffix"];
        let other = if has_pieces { "ignore_merges" } else { "byte_fallback" };
        if let Some(option) = unset.into_iter().chain([other]).find(|option| !is_unset(&model[option])) {
            return Err(unknown(format!("it is a BPE with `{option}`")));
        }
        let (own, own_normalizer) = (plain(&tokenizer["pre_tokenizer"]), plain(&tokenizer["normalizer"]));
        if !has_pieces {
            let is_same = |name: &&str| {
                pre_tokenizer(name).is_some_and(|known| plain(&known) == own)
                    && plain(&normalizer(name)) == own_normalizer
                    && ignores_merges(name) == (model["ignore_merges"] == true)
            };
            let pre = PRE_TOKENIZERS
                .into_iter()
                .find(is_same)
                .ok_or_else(|| unknown("it splits text into words as none that is known by name".to_owned()))?;
            return Ok(Self::Bytes { pre });
        }
        if own["type"] == "Metaspace" {
            return Err(unknown(
                "it begins a text with a space only where there is none (`Metaspace`), and llama.cpp each part of one"
                    .to_owned(),
            ));
        }
        // Gemma's changes nothing: its normalizer leaves no spaces to split at.
        let no_spaces =
            json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
        let is_same = |begins_with_space: &bool| {
            let (known, known_decoder) = of_spaces(*begins_with_space);
            plain(&known) == own_normalizer && plain(&known_decoder) == plain(decoder)
        };
        let found = [true, false].into_iter().find(is_same).filter(|_| own.is_null() || own == no_spaces);
        let begins_with_space = found.ok_or_else(|| {
            unknown("it changes or splits text before it is cut into pieces, or joins them otherwise".to_owned())
        })?;
        Ok(Self::Pieces { begins_with_space })
    }
}

pub(super) fn unknown(what: String) -> Error {
    Error::input(format!("the tokenizer cannot be written to a GGUF file: {what}")).hint(format!(
        "known are SentencePiece's BPE, and byte-level BPE tokenizers that llama.cpp calls {}; convert others with its `convert_hf_to_gguf.py`",
        PRE_TOKENIZERS.join(", ")
    ))
}

/// A part of a `tokenizer.json` without what changes no token, and with what it has by default.
fn plain(part: &Value) -> Value {
    let Value::Object(keys) = part else { return part.clone() };
    for parts in ["pretokenizers", "normalizers", "decoders"] {
        match keys.get(parts).and_then(Value::as_array).map(Vec::as_slice) {
            Some([]) => return Value::Null,
            Some([only]) => return plain(only),
            Some(several) => return several.iter().map(plain).collect(),
            None => (),
        }
    }
    let mut keys = keys.clone();
    keys.remove("trim_offsets");
    let mut default = |key: &str, value: bool| {
        keys.entry(key).or_insert(value.into());
    };
    match part["type"].as_str() {
        Some("ByteLevel") => default("use_regex", true),
        Some("Digits") => default("individual_digits", false),
        Some("Split") => default("invert", false),
        _ => (),
    }
    // To leave out what is between the words of a pattern is to keep the words, where there is nothing between them.
    if part["type"] == "Split" && part["invert"] == true && part["behavior"] == "Removed" {
        keys.extend([("invert".to_owned(), false.into()), ("behavior".to_owned(), "Isolated".into())]);
    }
    Value::Object(keys)
}

/// Every token with its type, in the order of ids; ids without one are filled up.
fn tokens(tokenizer: &Value, rows: usize, (family, kind): (&str, Kind)) -> Result<Vec<(String, i64)>> {
    let mut tokens: Vec<Option<(String, i64)>> = vec![None; rows];
    let mut set = |token: &str, id: &Value, kind: i64, replaces: bool| {
        let place = id.as_u64().and_then(|id| tokens.get_mut(usize::try_from(id).ok()?)).ok_or_else(|| {
            Error::format(format!("token {} has id {id}, but the model has {rows} tokens", clipped(token)))
        })?;
        if place.as_ref().is_some_and(|(other, _)| !replaces || other != token) {
            return Err(Error::format(format!("two tokens have id {id}, one of them {}", clipped(token))));
        }
        *place = Some((token.to_owned(), kind));
        Ok(())
    };
    let pieces = match kind {
        Kind::Bytes { .. } => None,
        Kind::Pieces { begins_with_space } => Some(begins_with_space),
    };
    let vocab = tokenizer["model"]["vocab"].as_object().ok_or_else(|| Error::format("it has no vocabulary"))?;
    for (token, id) in vocab {
        set(token, id, NORMAL, false)?;
    }
    for added in tokenizer["added_tokens"].as_array().into_iter().flatten() {
        let token = added["content"].as_str().ok_or_else(|| Error::format("an added token has no text"))?;
        // One that the model has no row for, such as an image's, is no token of its own.
        if added["id"].as_u64().is_some_and(|id| id >= rows as u64) && !vocab.contains_key(token) {
            continue;
        }
        let expected = [
            ("lstrip", false),
            ("rstrip", family == "phi3" && pieces.is_some() && takes_blanks(token)),
            ("single_word", false),
        ];
        if let Some((option, expected)) = expected.into_iter().find(|(option, set)| (added[option] == true) != *set) {
            let with = if expected { "without" } else { "with" };
            return Err(unknown(format!("its token {} is found {with} `{option}`", clipped(token))));
        }
        let changes = |begins_with_space| begins_with_space || token.contains([' ', SPACE]);
        if added["normalized"] == true && pieces.is_some_and(changes) {
            return Err(unknown(format!("its token {} is found with `normalized`", clipped(token))));
        }
        set(token, &added["id"], if added["special"] == true { CONTROL } else { USER_DEFINED }, true)?;
    }
    let filled = |(id, token): (usize, Option<_>)| token.unwrap_or_else(|| (format!("[PAD{id}]"), UNUSED));
    Ok(tokens.into_iter().enumerate().map(filled).collect())
}

/// Each merge as two tokens, which files have so or with a space in between.
fn pairs(merges: &Value) -> Result<Vec<[&str; 2]>> {
    let all = merges.as_array().map_or(&[][..], Vec::as_slice).iter();
    let pair = all.map(|merge| {
        let pair = match merge {
            Value::String(pair) => pair.split_once(' ').filter(|(_, right)| !right.contains(' ')),
            pair => pair[0].as_str().zip(pair[1].as_str()),
        };
        pair.map(|(left, right)| [left, right]).ok_or_else(|| not_a_merge(merge))
    });
    pair.collect()
}

/// Each merge as two tokens with a space in between.
fn merges(pairs: &[[&str; 2]]) -> Result<Vec<String>> {
    let merge = |pair: &[&str; 2]| match pair.iter().any(|part| part.contains(' ')) {
        true => Err(not_a_merge(&json!(pair))),
        false => Ok(pair.join(" ")),
    };
    pairs.iter().map(merge).collect()
}

fn not_a_merge(merge: &Value) -> Error {
    Error::format(format!("{} is no merge of two tokens", clipped(&merge.to_string())))
}

/// The token that is put before each text.
fn first_token(post_processor: &Value) -> Result<Option<usize>> {
    let other = || unknown("it adds other tokens to a text than one at its beginning".to_owned());
    match post_processor["type"].as_str() {
        None if post_processor.is_null() => Ok(None),
        Some("ByteLevel") => Ok(None),
        Some("Sequence") => {
            let parts = post_processor["processors"].as_array().map_or(&[][..], Vec::as_slice);
            let found: Vec<usize> =
                parts.iter().filter_map(|part| first_token(part).transpose()).collect::<Result<_>>()?;
            if found.len() > 1 { Err(other()) } else { Ok(found.first().copied()) }
        }
        Some("TemplateProcessing") => match post_processor["single"].as_array().map(Vec::as_slice) {
            Some([text]) if text["Sequence"].is_object() => Ok(None),
            Some([token, text]) if text["Sequence"].is_object() => {
                let name = token["SpecialToken"]["id"].as_str().ok_or_else(other)?;
                let ids = post_processor["special_tokens"][name]["ids"].as_array().ok_or_else(other)?;
                let [id] = ids.as_slice() else { return Err(other()) };
                id.as_u64().and_then(|id| usize::try_from(id).ok()).map(Some).ok_or_else(other)
            }
            _ => Err(other()),
        },
        _ => Err(other()),
    }
}

#[cfg(test)]
#[path = "vocabulary_tests.rs"]
mod tests;
