//! SentencePiece's BPE, which the Llama family had before it took to bytes: a vocabulary with a score for each piece.
//!
//! Source: Kudo and Richardson 2018, "SentencePiece", arXiv:1808.06226; `bpe_model.cc` there; `GGUFLlamaConverter` of
//! transformers' `integrations/ggml.py`, which makes merges of scores in the same way.

use serde_json::{Value, json};

use super::header::clipped;
use super::tokenizer::{NORMAL, Tokens, USER_DEFINED, first_token};
use super::{Gguf, GgufValue};
use crate::error::{Error, Result};

/// What stands for a space.
const SPACE: &str = "\u{2581}";
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
    let replace = |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let mut normalizers = vec![replace(" ", SPACE)];
    let mut decoders = vec![replace(SPACE, " "), json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
    if begins_with_space {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": SPACE}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let has_bytes = (0..tokens.texts.len()).any(|id| tokens.kind(id) == BYTE);
    Ok(json!({
        "normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": null,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "post_processor": first_token(header, tokens.texts, true)?,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": has_bytes, "ignore_merges": false,
            "vocab": tokens.ids, "merges": merges(tokens, scores)?,
        },
    }))
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
