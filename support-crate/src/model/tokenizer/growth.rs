//! By how much a `tokenizer.json` can make a text longer, before it is given one.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// How many times as long a text may become. A vocabulary writes a blank as three bytes and a byte as two, the most that a
/// character of Unicode decomposes to is eleven times as long, and some tokenizers (ALBERT's) do it twice.
const MOST: f64 = 10_000.0;

/// The parts of a `tokenizer.json` whose steps change texts and lists of tokens.
#[derive(Deserialize)]
struct Parts {
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
}

/// Refuses a tokenizer whose steps, one after the other, make a text longer than any memory: each may double it, and
/// forty of them make a terabyte of one letter.
///
/// # Errors
/// It is one; what is not JSON.
pub(super) fn check(json: &[u8]) -> Result<()> {
    let Parts { normalizer, pre_tokenizer, post_processor, decoder } = serde_json::from_slice(json)?;
    for (what, growth) in [
        ("the steps of `normalizer` and `pre_tokenizer`", growth(&normalizer) * growth(&pre_tokenizer)),
        ("the steps of `post_processor`", growth(&post_processor)),
        ("the steps of `decoder`", growth(&decoder)),
    ] {
        if growth > MOST {
            return Err(Error::format(format!("{what} can make a text {growth:.0} times as long"))
                .hint("no tokenizer needs that: the file is damaged, or made to fill the memory"));
        }
    }
    Ok(())
}

/// How many times as long a part, or all parts within it, can make what they are given.
fn growth(part: &Value) -> f64 {
    match part {
        Value::Array(parts) => parts.iter().map(growth).product(),
        // Older files do not name the kind of a step, so that its keys have to say it.
        Value::Object(keys) => of_step(keys) * keys.values().map(growth).product::<f64>(),
        _ => 1.0,
    }
}

fn of_step(step: &Map<String, Value>) -> f64 {
    let text = |key: &str| step.get(key).and_then(Value::as_str);
    let by_kind = match text("type") {
        Some("ByteLevel" | "Lowercase") => 2.0,
        Some("NFC" | "NFD") => 3.0,
        Some("NFKC" | "NFKD") => 11.0,
        // A character of up to four bytes for each blank, and one in front.
        Some("Metaspace") => 5.0,
        // An empty text is found between any two bytes, and becomes a blank.
        Some("BPEDecoder") if text("suffix") == Some("") => 3.0,
        Some("CTC") if text("word_delimiter_token") == Some("") => 3.0,
        _ => 1.0,
    };
    let replaced = match (step.get("pattern"), text("content")) {
        (Some(pattern), Some(content)) => of_replacement(pattern, content.len() as f64),
        _ => 1.0,
    };
    // In front of each piece of a text, of which there may be as many as bytes.
    let prepended = 1.0 + text("prepend").map_or(0.0, |prepend| prepend.len() as f64);
    let mapped = text("precompiled_charsmap").map_or(1.0, longest_mapped);
    // BERT's: blanks around characters, which are taken apart and made small.
    let cleaned = if step.contains_key("handle_chinese_chars") { 12.0 } else { 1.0 };
    // A template may have the text more than once.
    let pieces = step.get("single").and_then(Value::as_array).map_or(1, Vec::len).max(1) as f64;
    by_kind * replaced * prepended * mapped * cleaned * pieces
}

/// Of a step that puts so many bytes in place of what fits a pattern.
fn of_replacement(pattern: &Value, content: f64) -> f64 {
    let shortest = match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(text), _) => text.len(),
        (None, Some(regex)) => usize::from(!may_fit_nothing(regex)),
        (None, None) => 0,
    };
    // What fits nothing fits between any two bytes, which stay.
    if shortest == 0 { 1.0 + content } else { (content / shortest as f64).max(1.0) }
}

/// Whether a regular expression may fit an empty text, as all but the plainest might.
fn may_fit_nothing(regex: &str) -> bool {
    let marks_a_place = |escaped: &str| escaped.starts_with(['b', 'B', 'A', 'z', 'Z', 'G', 'K', 'y', 'Y']);
    regex.is_empty()
        || regex.contains(['*', '?', '|', '^', '$', '('])
        || ["{0", "{,"].into_iter().any(|none| regex.contains(none))
        || regex.split('\\').skip(1).any(marks_a_place)
}

/// The most bytes that SentencePiece's map of characters has for one.
///
/// Source: `parse` of the crate `spm_precompiled`: the size of a trie, the trie, and texts that end with a zero.
fn longest_mapped(charsmap: &str) -> f64 {
    let Ok(bytes) = BASE64_STANDARD.decode(charsmap) else { return 1.0 };
    let Some((size, rest)) = bytes.split_first_chunk() else { return 1.0 };
    let texts = rest.get(u32::from_le_bytes(*size) as usize..).unwrap_or_default();
    texts.split(|&byte| byte == 0).map(<[u8]>::len).max().unwrap_or(1).max(1) as f64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replace(pattern: Value, content: &str) -> Value {
        json!({ "type": "Replace", "pattern": pattern, "content": content })
    }

    #[test]
    fn steps_multiply() {
        let doubling = replace(json!({ "String": "a" }), "aa");
        let all = |steps: Vec<Value>| growth(&json!({ "type": "Sequence", "normalizers": steps }));
        assert_eq!(all(vec![doubling.clone(); 10]), 1024.0);
        let nested = json!({ "type": "Sequence", "normalizers": vec![doubling; 5] });
        assert_eq!(all(vec![nested.clone(), nested]), 1024.0);
        assert_eq!(all(vec![]), 1.0);
    }

    #[test]
    fn each_kind_of_step_has_its_growth() {
        let charsmap = |texts: &[u8]| {
            let bytes = [&4_u32.to_le_bytes()[..], &[0; 4], texts].concat();
            json!({ "type": "Precompiled", "precompiled_charsmap": BASE64_STANDARD.encode(bytes) })
        };
        for (step, expected) in [
            (Value::Null, 1.0),
            (replace(json!({ "String": "ab" }), "abc"), 1.5),
            (replace(json!({ "String": "\u{2581}" }), " "), 1.0),
            (replace(json!({ "String": "" }), "ab"), 3.0),
            (replace(json!({ "Regex": " {2,}" }), "\u{2581}"), 3.0),
            (replace(json!({ "Regex": "(?=a)" }), "a"), 2.0),
            (replace(json!({ "Regex": "a\\b" }), "ab"), 3.0),
            // Without a name for its kind.
            (json!({ "pattern": { "String": "a" }, "content": "aaa" }), 3.0),
            (json!({ "type": "Prepend", "prepend": "\u{2581}" }), 4.0),
            (json!({ "type": "BPEDecoder", "suffix": "" }), 3.0),
            (json!({ "type": "BPEDecoder", "suffix": "</w>" }), 1.0),
            (json!({ "type": "TemplateProcessing", "single": [{ "Sequence": {} }, { "Sequence": {} }] }), 2.0),
            (charsmap(b"ab\0abcd\0c\0"), 4.0),
            (json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" }), 1.0),
        ] {
            assert_eq!(growth(&step), expected, "{step}");
        }
    }
}
