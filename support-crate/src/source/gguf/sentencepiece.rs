//! SentencePiece's BPE, which the Llama family had before it took to bytes: a vocabulary with a score for each piece. Read
//! as merges, and written from merges.
//!
//! Source: Kudo and Richardson 2018, "SentencePiece", arXiv:1808.06226; `bpe_model.cc` there; `GGUFLlamaConverter` of
//! transformers' `integrations/ggml.py`, which makes merges of scores in the same way; `llm_tokenizer_spm_session` of
//! llama.cpp's `llama-vocab.cpp`.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use super::header::clipped;
use super::tokenizer::{NORMAL, Tokens, UNKNOWN, USER_DEFINED, first_token};
use super::vocabulary::unknown;
use super::{Gguf, GgufValue};
use crate::error::{Error, Result};

/// What stands for a space.
pub(super) const SPACE: char = '\u{2581}';
/// Bytes of a piece, more than any has that is made of two others.
const LONGEST_PIECE: usize = 128;
/// Ways to cut pieces into two others, far more than any vocabulary has.
const MOST_MERGES: usize = 1 << 22;
/// A single byte, `<0x0A>`, for what no other token has.
const BYTE: i64 = 6;

/// The parts of `tokenizer.json` that are not the same for every kind of tokenizer.
///
/// # Errors
/// No score for each token, or one that is no number; an unknown token that is not in the vocabulary.
pub(super) fn of(header: &Gguf, tokens: &Tokens) -> Result<Value> {
    let scores = match header.metadata().get("tokenizer.ggml.scores") {
        Some(GgufValue::Floats(scores)) if scores.len() == tokens.texts.len() => scores,
        _ => return Err(Error::format("`tokenizer.ggml.scores` does not have one number for each token")),
    };
    if let Some(id) = scores.iter().position(|score| score.is_nan()) {
        return Err(Error::format(format!("the score of token {id}, {}, is NaN", clipped(&tokens.texts[id]))));
    }
    let unknown = header.optional("tokenizer.ggml.unknown_token_id", Gguf::size)?.unwrap_or(0);
    let unknown = tokens.texts.get(unknown).ok_or_else(|| {
        Error::format(format!("token {unknown} is to stand for what is unknown, but there is no such token"))
    })?;
    let flag = |name: &str| header.optional(&format!("tokenizer.ggml.{name}"), Gguf::flag);
    if flag("remove_extra_whitespaces")? == Some(true) {
        return Err(Error::format("its tokenizer joins spaces that follow each other, which is not supported"));
    }
    let begins_with_space = flag("add_space_prefix")?.unwrap_or(true);
    let has_bytes = (0..tokens.texts.len()).any(|id| tokens.kind(id) == BYTE);
    let (normalizer, decoder) = of_spaces(begins_with_space);
    Ok(json!({
        "normalizer": normalizer, "pre_tokenizer": null, "decoder": decoder,
        "post_processor": first_token(header, tokens.texts, true)?,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": has_bytes, "ignore_merges": false,
            "vocab": tokens.ids, "merges": merges(tokens, scores)?,
        },
    }))
}

/// What is done to spaces before text is cut into pieces, and after pieces are joined.
pub(super) fn of_spaces(begins_with_space: bool) -> (Value, Value) {
    let replace = |from: char, to: char| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let mut normalizers = vec![replace(' ', SPACE)];
    let mut decoders = vec![replace(SPACE, ' '), json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
    if begins_with_space {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": SPACE}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let sequence = |parts: &str, of: Vec<Value>| json!({"type": "Sequence", parts: of});
    (sequence("normalizers", normalizers), sequence("decoders", decoders))
}

/// Which neighbours become one token, the first of them first: SentencePiece joins the two that make the piece of the
/// highest score, however it is cut in two.
fn merges<'a>(tokens: &Tokens<'a>, scores: &[f64]) -> Result<Vec<[&'a str; 2]>> {
    let id = |piece: &str| {
        let id = tokens.ids.get(piece)?.as_u64()? as usize;
        [NORMAL, USER_DEFINED].contains(&tokens.kind(id)).then_some(id)
    };
    let mut found: Vec<(usize, usize, usize, [&str; 2])> = Vec::new();
    let pieces = tokens.texts.iter().enumerate().filter(|(_, text)| text.len() <= LONGEST_PIECE);
    for (whole, text) in pieces.filter(|(_, text)| id(text).is_some()) {
        let cuts = text.char_indices().skip(1).map(|(at, _)| text.split_at(at));
        found.extend(cuts.filter_map(|(left, right)| Some((whole, id(left)?, id(right)?, [left, right]))));
        if found.len() > MOST_MERGES {
            return Err(Error::format(format!("its pieces can be cut into others in more than {MOST_MERGES} ways")));
        }
    }
    // Of the same piece, or of pieces of the same score: as transformers orders them.
    found.sort_by(|a, b| {
        let by_parts = || (scores[b.1], scores[b.2]).partial_cmp(&(scores[a.1], scores[a.2]));
        let by_piece = scores[b.0].total_cmp(&scores[a.0]).then(a.0.cmp(&b.0));
        by_piece.then_with(|| by_parts().unwrap_or(std::cmp::Ordering::Equal))
    });
    Ok(found.into_iter().map(|(.., parts)| parts).collect())
}

/// Scores for a vocabulary with merges, and the types of what are no words: the way back from [`of`].
///
/// A piece's score is how late it is first made, as in SentencePiece's own models. The words that no merge makes come after
/// these, in the order of the vocabulary.
///
/// # Errors
/// Bytes that have no token; merges that are not all those that the vocabulary allows, of which llama.cpp leaves out none.
pub(super) fn scores(model: &Value, tokens: &mut [(String, i64)], pairs: &[[&str; 2]]) -> Result<Vec<f64>> {
    let ids: HashMap<String, usize> = tokens.iter().enumerate().map(|(id, (text, _))| (text.clone(), id)).collect();
    let name = |byte: u8| format!("<0x{byte:02X}>");
    let has_byte = |byte: u8| {
        ids.contains_key(&name(byte)) || byte.is_ascii() && ids.contains_key(char::from(byte).encode_utf8(&mut [0; 4]))
    };
    if model["byte_fallback"] != true || !(0..=u8::MAX).all(has_byte) {
        return Err(unknown(
            "it does not have a token for each byte, which llama.cpp takes for what has no other".to_owned(),
        ));
    }
    let mut made: HashMap<usize, usize> = HashMap::new();
    for pair in pairs {
        if let Some(&id) = ids.get(&pair.concat()) {
            let next = made.len();
            made.entry(id).or_insert(next);
        }
    }
    let bytes: BTreeSet<String> = (0..=u8::MAX).map(name).collect();
    for (id, (text, kind)) in tokens.iter_mut().enumerate() {
        match *kind {
            NORMAL if bytes.contains(text) => *kind = BYTE,
            NORMAL if model["unk_token"] == **text => *kind = UNKNOWN,
            // llama.cpp would show a token of a user's with what stands for spaces in it.
            USER_DEFINED if made.contains_key(&id) && text.contains(SPACE) => *kind = NORMAL,
            _ => (),
        }
    }
    let mut next = made.len();
    let rank = |(id, (_, kind)): (usize, &(String, i64))| match made.get(&id) {
        Some(&rank) => rank,
        None if *kind == NORMAL => {
            next += 1;
            next - 1
        }
        None => 0,
    };
    let scores: Vec<f64> = tokens.iter().enumerate().map(rank).map(|rank| 0.0 - rank as f64).collect();
    check_merges(tokens, &scores, pairs)?;
    Ok(scores)
}

/// Makes sure that scores stand for the merges that they were made of.
fn check_merges(tokens: &[(String, i64)], scores: &[f64], pairs: &[[&str; 2]]) -> Result<()> {
    let (texts, types): (Vec<String>, Vec<i64>) = tokens.iter().cloned().unzip();
    let tokens = Tokens::new(&texts, &types)?;
    let merges = merges(&tokens, scores)?;
    let (known, given): (HashSet<_>, HashSet<_>) = (merges.iter().collect(), pairs.iter().collect());
    let is_word = |text: &str| {
        let kind = tokens.ids.get(text).and_then(Value::as_u64).map(|id| tokens.kind(id as usize));
        kind.is_some_and(|kind| [NORMAL, USER_DEFINED].contains(&kind))
    };
    let is_of_words = |pair: &[&str; 2]| pair.iter().all(|part| is_word(part)) && is_word(&pair.concat());
    if let Some([left, right]) = merges.iter().find(|pair| !given.contains(pair)) {
        let (left, right) = (clipped(left), clipped(right));
        return Err(unknown(format!(
            "it does not join {left} and {right}, as llama.cpp would to the token of their text"
        )));
    }
    if let Some([left, right]) = pairs.iter().find(|pair| !known.contains(pair) && is_of_words(pair)) {
        return Err(unknown(format!("it joins {} and {}, which are too long", clipped(left), clipped(right))));
    }
    Ok(())
}
