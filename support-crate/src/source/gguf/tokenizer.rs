//! Metadata to what `tokenizer.json` says of the same tokenizer.
//!
//! Source: ggml's `docs/gguf.md`; `llama-vocab.cpp` of llama.cpp for what each name of a pre-tokenizer stands for; the
//! published `tokenizer.json` of a model that has it.

use serde_json::{Map, Value, json};

use super::header::clipped;
use super::{Gguf, config, sentencepiece};
use crate::error::{Error, Result};

/// What a token is: `tokenizer.ggml.token_type`.
pub(super) const NORMAL: i64 = 1;
pub(super) const UNKNOWN: i64 = 2;
pub(super) const CONTROL: i64 = 3;
pub(super) const USER_DEFINED: i64 = 4;
/// Filled up to the rows of the embedding: `[PAD151665]` and the like.
pub(super) const UNUSED: i64 = 5;
/// Tokens that end a message or a text, of which files name one or two by their roles.
///
/// Source: what llama.cpp's `llama-vocab.cpp` looks for by text.
const END_TEXTS: [&str; 7] =
    ["<end_of_turn>", "<|end|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>"];
/// Begins a message; some files of Gemma have it, and its end, as a part of words.
const START_OF_TURN: &str = "<start_of_turn>";
/// The names of pre-tokenizers that are known.
pub(super) const PRE_TOKENIZERS: [&str; 7] = ["gpt-2", "smollm", "qwen2", "llama-bpe", "smaug-bpe", "dbrx", "gpt-4o"];
/// More than any vocabulary has; more than are added to any; bytes of a token, more than any has.
const MOST_TOKENS: usize = 1 << 20;
const MOST_ADDED: usize = 1 << 14;
const LONGEST_TOKEN: usize = 1 << 12;

/// How text is cut into words before tokens are looked for, by the name that llama.cpp has for it.
pub(super) fn pre_tokenizer(name: &str) -> Option<Value> {
    let bytes = |use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex});
    let sequence = |first: Value, second: Value| json!({"type": "Sequence", "pretokenizers": [first, second]});
    let split = |words: &str, digits: &str, more: &str| {
        let pattern =
            format!("{words}|\\p{{N}}{digits}| ?[^\\s\\p{{L}}\\p{{N}}]+[\\r\\n{more}]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+");
        let split = json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
        sequence(split, bytes(false))
    };
    let ends = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
    let plain = format!("{ends}|[^\\r\\n\\p{{L}}\\p{{N}}]?\\p{{L}}+");
    Some(match name {
        "gpt-2" => bytes(true),
        "smollm" => sequence(json!({"type": "Digits", "individual_digits": true}), bytes(true)),
        "qwen2" => split(&plain, "", ""),
        "llama-bpe" | "smaug-bpe" | "dbrx" => split(&plain, "{1,3}", ""),
        // A word ends where a capital letter follows a small one.
        "gpt-4o" => {
            let (capitals, small) = ("[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]", "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]");
            let before = "[^\\r\\n\\p{L}\\p{N}]?";
            let words = format!("{before}{capitals}*{small}+{ends}?|{before}{capitals}+{small}*{ends}?");
            split(&words, "{1,3}", "/")
        }
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
///
/// # Errors
/// One of another kind; a vocabulary that contradicts itself, or the rows of the model's embedding.
pub(super) fn of(header: &Gguf) -> Result<Value> {
    let parts = match header.text("tokenizer.ggml.model")? {
        "gpt2" => byte_level,
        "llama" => sentencepiece::of,
        other => {
            return Err(Error::format(format!("its tokenizer has the type {}", clipped(other))).hint(
                "`gpt2` (byte-level BPE) and `llama` (SentencePiece's BPE) are supported; load others from safetensors",
            ));
        }
    };
    let tokens = Tokens::of(header)?;
    let family = header.optional("general.architecture", Gguf::text)?;
    let is_phi3 = family == Some("phi3") && header.text("tokenizer.ggml.model")? == "llama";
    let added = tokens.added(is_phi3)?;
    let mut tokenizer = parts(header, &tokens)?;
    tokenizer["version"] = json!("1.0");
    tokenizer["added_tokens"] = json!(added);
    for unset in ["truncation", "padding"] {
        tokenizer[unset] = Value::Null;
    }
    Ok(tokenizer)
}

/// A vocabulary: the texts of its tokens, and what each is.
pub(super) struct Tokens<'a> {
    pub texts: &'a [String],
    types: &'a [i64],
    /// Ids by text, without what only fills the embedding up.
    pub ids: Map<String, Value>,
}

impl<'a> Tokens<'a> {
    fn of(header: &'a Gguf) -> Result<Self> {
        let texts = header.texts("tokenizer.ggml.tokens")?;
        let types = match header.metadata().get("tokenizer.ggml.token_type") {
            None => &[][..],
            Some(super::GgufValue::Wholes(types)) if types.len() == texts.len() => types,
            Some(_) => {
                return Err(Error::format("`tokenizer.ggml.token_type` does not have one number for each token"));
            }
        };
        let tokens = Self::new(texts, types)?;
        // Otherwise the model could choose tokens that have no text.
        let rows = header.tensors().get("token_embd.weight").and_then(|tensor| tensor.shape.first());
        if let Some(rows) = rows.filter(|&&rows| rows != texts.len()) {
            return Err(Error::format(format!("{} tokens for the {rows} rows of `token_embd.weight`", texts.len())));
        }
        Ok(tokens)
    }

    /// A vocabulary of texts, and what is said of each.
    ///
    /// # Errors
    /// More than there can be; two tokens of the same text.
    pub fn new(texts: &'a [String], types: &'a [i64]) -> Result<Self> {
        if texts.len() > MOST_TOKENS {
            return Err(Error::format(format!("its vocabulary has {} tokens, more than {MOST_TOKENS}", texts.len())));
        }
        if let Some((id, token)) = texts.iter().enumerate().find(|(_, token)| token.len() > LONGEST_TOKEN) {
            return Err(Error::format(format!("token {id} has {} bytes, more than {LONGEST_TOKEN}", token.len())));
        }
        let mut ids = Map::new();
        for (id, token) in texts.iter().enumerate() {
            if types.get(id) == Some(&UNUSED) && *token == format!("[PAD{id}]") {
                continue;
            }
            if ids.insert(token.clone(), json!(id)).is_some() {
                return Err(Error::format(format!("two tokens are {}", clipped(token))));
            }
        }
        Ok(Self { texts, types, ids })
    }

    /// What a token is; a part of words where nothing is said, unless its text is that of a mark.
    pub fn kind(&self, id: usize) -> i64 {
        match self.types.get(id).copied().unwrap_or(NORMAL) {
            NORMAL if END_TEXTS.contains(&&*self.texts[id]) || self.texts[id] == START_OF_TURN => CONTROL,
            kind => kind,
        }
    }

    /// Those that are found in a text before it is cut into parts. What is blank after one of Phi-3's belongs to it, which
    /// no key says.
    fn added(&self, is_phi3: bool) -> Result<Vec<Value>> {
        let is_added = |id: &usize| [CONTROL, USER_DEFINED].contains(&self.kind(*id));
        let ids: Vec<usize> = (0..self.texts.len()).filter(is_added).collect();
        if ids.len() > MOST_ADDED {
            return Err(Error::format(format!("it has {} tokens that are not parts of words", ids.len())));
        }
        let added = |id: usize| {
            json!({
                "id": id, "content": self.texts[id], "single_word": false, "lstrip": false,
                "rstrip": is_phi3 && takes_blanks(&self.texts[id]),
                "normalized": false, "special": self.kind(id) == CONTROL,
            })
        };
        Ok(ids.into_iter().map(added).collect())
    }
}

/// Whether what is blank after a mark of Phi-3 belongs to the mark.
///
/// Source: llama.cpp's `llama-vocab.cpp`.
pub(super) fn takes_blanks(mark: &str) -> bool {
    !["<unk>", "<s>", "<|endoftext|>"].contains(&mark)
}

/// A tokenizer over bytes, as GPT-2 has it.
fn byte_level(header: &Gguf, tokens: &Tokens) -> Result<Value> {
    let known = format!("supported are {}", PRE_TOKENIZERS.join(", "));
    let name = header.text("tokenizer.ggml.pre").map_err(|error| {
        error.hint(format!("it says how text is split into words; convert the model again ({known})"))
    })?;
    let pre_tokenizer = pre_tokenizer(name).ok_or_else(|| {
        Error::format(format!("its tokenizer splits text into words like {}", clipped(name))).hint(known)
    })?;
    let merges = header.texts("tokenizer.ggml.merges")?;
    for merge in merges {
        let is_known = |(left, right): (&str, &str)| {
            [left, right, &format!("{left}{right}")].into_iter().all(|token| tokens.ids.contains_key(token))
        };
        if !merge.split_once(' ').is_some_and(is_known) {
            return Err(Error::format(format!("the merge {} does not join two tokens into a third", clipped(merge))));
        }
    }
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    Ok(json!({
        "normalizer": normalizer(name), "pre_tokenizer": pre_tokenizer, "decoder": byte_level,
        // As llama.cpp takes it where nothing is said.
        "post_processor": first_token(header, tokens.texts, name == "llama-bpe")?,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": ignores_merges(name), "vocab": tokens.ids, "merges": merges,
        },
    }))
}

/// What `generation_config.json` would say: which tokens end a reply, those of [`ENDS`] and any that is known by its text.
///
/// # Errors
/// Those of [`Gguf`]'s readers.
pub(super) fn generation(header: &Gguf) -> Result<Value> {
    let tokens = header.texts("tokenizer.ggml.tokens")?;
    let mut ends = config::ends(header)?;
    ends.extend((0..tokens.len()).filter(|&id| END_TEXTS.contains(&&*tokens[id])));
    ends.sort_unstable();
    ends.dedup();
    Ok(json!({"eos_token_id": ends}))
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

/// Puts a token before each text, for models that were trained so; `by_default` where the file does not say.
pub(super) fn first_token(header: &Gguf, tokens: &[String], by_default: bool) -> Result<Value> {
    let adds = |which: &str| header.optional(&format!("tokenizer.ggml.add_{which}_token"), Gguf::flag);
    if adds("eos")? == Some(true) {
        return Err(Error::format("its tokenizer ends each text with a token, which is not supported"));
    }
    if !adds("bos")?.unwrap_or(by_default) {
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
