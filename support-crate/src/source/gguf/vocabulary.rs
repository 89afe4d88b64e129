//! A tokenizer to what the metadata of a GGUF file say of it: the way back from `tokenizer`.
//!
//! Source: as there; `get_vocab_base` and `SpecialVocab` of llama.cpp's `conversion/base.py` and package `gguf`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::GgufValue;
use super::config::ENDS;
use super::header::clipped;
use super::tokenizer::{CONTROL, NORMAL, PRE_TOKENIZERS, UNUSED, USER_DEFINED};
use super::tokenizer::{ignores_merges, normalizer, pre_tokenizer};
use crate::error::{Context, Error, Result};
use crate::source::{ModelFiles, special_token};

/// The keys and values for a model with so many rows in its embedding, whose config says that `ends` end a text, and
/// perhaps which token begins one.
///
/// # Errors
/// Files that cannot be read; a tokenizer that does not work as any whose name llama.cpp and this library know.
pub(crate) fn vocabulary(
    files: &ModelFiles,
    rows: usize,
    begin: Option<u32>,
    ends: &[u32],
) -> Result<Vec<(String, GgufValue)>> {
    let tokenizer: Value = serde_json::from_slice(&files.tokenizer.read()?).context(|| files.tokenizer.to_string())?;
    let config = files.tokenizer_config()?;
    let mut values = of_tokenizer(&tokenizer, &config, rows, begin, ends).context(|| files.tokenizer.to_string())?;
    if let Some(template) = files.chat_template(&config)? {
        values.push(("tokenizer.chat_template".to_owned(), GgufValue::Text(template)));
    }
    Ok(values)
}

fn of_tokenizer(
    tokenizer: &Value,
    config: &Value,
    rows: usize,
    begin: Option<u32>,
    ends: &[u32],
) -> Result<Vec<(String, GgufValue)>> {
    let name = name(tokenizer)?;
    let tokens = tokens(tokenizer, rows)?;
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
    let begin = first.or_else(|| special("bos")).or(config_begin);
    let named = [("bos", begin), ("unknown", special("unk")), ("padding", special("pad"))];
    let ends = ENDS.into_iter().zip(ends.into_iter().map(Some));
    let named = named.into_iter().chain(ends).filter_map(|(role, id)| Some((role, id?)));
    let (texts, types) = tokens.iter().cloned().unzip();
    let mut values = vec![
        ("model".to_owned(), GgufValue::Text("gpt2".to_owned())),
        ("pre".to_owned(), GgufValue::Text(name.to_owned())),
        ("tokens".to_owned(), GgufValue::Texts(texts)),
        ("token_type".to_owned(), GgufValue::Wholes(types)),
        ("merges".to_owned(), GgufValue::Texts(merges(&tokenizer["model"]["merges"])?)),
        ("add_bos_token".to_owned(), GgufValue::Bool(first.is_some())),
    ];
    values.extend(named.map(|(role, id)| (format!("{role}_token_id"), GgufValue::Whole(id as i128))));
    Ok(values.into_iter().map(|(key, value)| (format!("tokenizer.ggml.{key}"), value)).collect())
}

/// llama.cpp's name for how this tokenizer cuts text into words.
fn name(tokenizer: &Value) -> Result<&'static str> {
    let model = &tokenizer["model"];
    let is_unset = |value: &Value| value.is_null() || value == "" || *value == Value::Bool(false);
    let unset = ["dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"];
    let is_byte_level = model["type"] == "BPE" && tokenizer["decoder"]["type"] == "ByteLevel";
    if let Some(option) = unset.into_iter().find(|option| !is_unset(&model[option])) {
        return Err(unknown(format!("it is a BPE with `{option}`")));
    }
    if !is_byte_level {
        let kind = model["type"].as_str().unwrap_or("unknown");
        return Err(unknown(format!("it is of type {}, or not byte-level", clipped(kind))));
    }
    let (own, own_normalizer) = (plain(&tokenizer["pre_tokenizer"]), plain(&tokenizer["normalizer"]));
    let is_same = |name: &&str| {
        pre_tokenizer(name).is_some_and(|known| plain(&known) == own)
            && plain(&normalizer(name)) == own_normalizer
            && ignores_merges(name) == (model["ignore_merges"] == true)
    };
    PRE_TOKENIZERS
        .into_iter()
        .find(is_same)
        .ok_or_else(|| unknown("it splits text into words as none that is known by name".to_owned()))
}

fn unknown(what: String) -> Error {
    Error::input(format!("the tokenizer cannot be written to a GGUF file: {what}")).hint(format!(
        "known are byte-level BPE tokenizers that llama.cpp calls {}; convert others with its `convert_hf_to_gguf.py`",
        PRE_TOKENIZERS.join(", ")
    ))
}

/// A part of a `tokenizer.json` without what changes no token, and with what it has by default.
fn plain(part: &Value) -> Value {
    let Value::Object(keys) = part else { return part.clone() };
    for parts in ["pretokenizers", "normalizers"] {
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
    Value::Object(keys)
}

/// Every token with its type, in the order of ids; ids without one are filled up.
fn tokens(tokenizer: &Value, rows: usize) -> Result<Vec<(String, i64)>> {
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
    let vocab = tokenizer["model"]["vocab"].as_object().ok_or_else(|| Error::format("it has no vocabulary"))?;
    for (token, id) in vocab {
        set(token, id, NORMAL, false)?;
    }
    for added in tokenizer["added_tokens"].as_array().into_iter().flatten() {
        let token = added["content"].as_str().ok_or_else(|| Error::format("an added token has no text"))?;
        if let Some(option) = ["lstrip", "rstrip", "single_word"].into_iter().find(|option| added[option] == true) {
            return Err(unknown(format!("its token {} is found with `{option}`", clipped(token))));
        }
        set(token, &added["id"], if added["special"] == true { CONTROL } else { USER_DEFINED }, true)?;
    }
    let filled = |(id, token): (usize, Option<_>)| token.unwrap_or_else(|| (format!("[PAD{id}]"), UNUSED));
    Ok(tokens.into_iter().enumerate().map(filled).collect())
}

/// Each merge as two tokens with a space in between: files have them so, or as pairs.
fn merges(merges: &Value) -> Result<Vec<String>> {
    let merge = |merge: &Value| {
        let pair = match merge {
            Value::String(pair) => pair.split_once(' '),
            pair => pair[0].as_str().zip(pair[1].as_str()),
        };
        let pair = pair.filter(|(left, right)| ![left, right].into_iter().any(|part| part.contains(' ')));
        pair.map(|(left, right)| format!("{left} {right}"))
            .ok_or_else(|| Error::format(format!("{} is no merge of two tokens", clipped(&merge.to_string()))))
    };
    merges.as_array().map_or(&[][..], Vec::as_slice).iter().map(merge).collect()
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
