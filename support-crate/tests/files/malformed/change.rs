//! Changes that no file should survive unnoticed.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// What is done to a tensor's entry in the header.
#[derive(Debug, Clone)]
pub enum Change {
    Field(&'static str, Value),
    Entry(String),
    Remove,
    /// The name becomes that of another tensor, which then occurs twice.
    NameOf(Index),
    Name(String),
    Again,
}

impl Change {
    pub fn apply(self, header: &mut Vec<(String, String)>, tensor: Index) {
        if header.is_empty() {
            return;
        }
        let at = tensor.index(header.len());
        match self {
            Self::Field(key, value) => {
                if let Ok(Value::Object(mut entry)) = serde_json::from_str(&header[at].1) {
                    entry.insert(key.to_owned(), value);
                    header[at].1 = Value::Object(entry).to_string();
                }
            }
            Self::Entry(entry) => header[at].1 = entry,
            Self::Remove => drop(header.remove(at)),
            Self::NameOf(other) => header[at].0 = header[other.index(header.len())].0.clone(),
            Self::Name(name) => header[at].0 = name,
            Self::Again => header.push(header[at].clone()),
        }
    }
}

pub fn any_change() -> impl Strategy<Value = Change> {
    let dtype =
        prop::sample::select(vec!["F64", "F32", "F16", "BF16", "F8_E4M3", "F4", "I64", "U8", "BOOL", "C64", "f32"]);
    prop_oneof![
        dtype.prop_map(|dtype| Change::Field("dtype", json!(dtype))),
        any_json().prop_map(|value| Change::Field("dtype", value)),
        prop::collection::vec(any_size(), 0..4).prop_map(|shape| Change::Field("shape", json!(shape))),
        any_json().prop_map(|value| Change::Field("shape", value)),
        [any_size(), any_size()].prop_map(|offsets| Change::Field("data_offsets", json!(offsets))),
        any_json().prop_map(|value| Change::Field("data_offsets", value)),
        any_json().prop_map(|value| Change::Field("more", value)),
        any_json().prop_map(|value| Change::Entry(value.to_string())),
        (1..100_000_usize).prop_map(|depth| Change::Entry("[".repeat(depth) + &"]".repeat(depth))),
        "[\\[\\]{}\",:0-9a-z]{0,20}".prop_map(Change::Entry),
        Just(Change::Remove),
        any::<Index>().prop_map(Change::NameOf),
        prop_oneof![Just("__metadata__".to_owned()), any::<String>()].prop_map(Change::Name),
        Just(Change::Again),
    ]
}

/// Small numbers, powers of two and their neighbours, and any.
fn any_size() -> impl Strategy<Value = u64> {
    let near_a_power = (0..64_u32, -1..2_i64).prop_map(|(shift, step)| (1_u64 << shift).wrapping_add_signed(step));
    prop_oneof![0..300_u64, near_a_power, any::<u64>()]
}

/// What a config may say, and a small file does not have.
pub fn large_size() -> impl Strategy<Value = u64> {
    (10..25_u32).prop_map(|shift| 1 << shift)
}

pub fn any_json() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => any_size().prop_map(|size| json!(size)),
        1 => any::<i64>().prop_map(|number| json!(number)),
        1 => any::<f64>().prop_map(|number| json!(number)),
        1 => ".{0,8}".prop_map(|text| json!(text)),
        1 => any::<bool>().prop_map(|bit| json!(bit)),
        1 => prop::collection::vec(any_size(), 0..200).prop_map(|sizes| json!(sizes)),
        1 => Just(json!({ "rope_type": "llama3", "factor": 1e38, "low_freq_factor": 1e-38, "nested": [[{ "a": [] }]] })),
        1 => Just(Value::Null),
    ]
}

/// A key of a config, whether or not the family has it.
pub fn any_key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "model_type",
        "vocab_size",
        "n_positions",
        "max_position_embeddings",
        "n_embd",
        "hidden_size",
        "n_layer",
        "num_hidden_layers",
        "n_head",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "n_inner",
        "intermediate_size",
        "rope_theta",
        "rope_scaling",
        "sliding_window",
        "tie_word_embeddings",
        "layer_norm_epsilon",
        "rms_norm_eps",
        "eos_token_id",
    ])
}

/// What is done to the bytes of a file.
#[derive(Debug, Clone)]
pub enum Edit {
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Cut(Index),
    /// The first eight bytes, which say how long a safetensors header is.
    Length(u64),
}

impl Edit {
    pub fn apply(self, bytes: &mut Vec<u8>) {
        // Half of the edits are in the first part, where the header is.
        let place = |at: Index, len: usize| if at.index(2) == 0 { at.index(len) } else { at.index(len.min(4096)) };
        match self {
            _ if bytes.is_empty() => (),
            Self::Flip(at, bits) => {
                let at = place(at, bytes.len());
                bytes[at] ^= bits;
            }
            Self::Insert(at, more) => {
                let at = place(at, bytes.len());
                bytes.splice(at..at, more);
            }
            Self::Remove(at, count) => {
                let at = place(at, bytes.len());
                bytes.drain(at..bytes.len().min(at + count));
            }
            Self::Cut(at) => bytes.truncate(place(at, bytes.len())),
            Self::Length(length) => drop(bytes.splice(..bytes.len().min(8), length.to_le_bytes())),
        }
    }
}

pub fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (any::<Index>(), 1..=u8::MAX).prop_map(|(at, bits)| Edit::Flip(at, bits)),
        2 => (any::<Index>(), prop::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, more)| Edit::Insert(at, more)),
        2 => (any::<Index>(), 1..40_usize).prop_map(|(at, count)| Edit::Remove(at, count)),
        1 => any::<Index>().prop_map(Edit::Cut),
        1 => any_size().prop_map(Edit::Length),
    ]
}

/// Puts `part` inside of `value`, at the end of a way that these choose.
pub fn put(part: Value, value: &mut Value, path: &[Index]) {
    match (value, path) {
        (Value::Object(map), [first, rest @ ..]) if !map.is_empty() => {
            let at = first.index(map.len());
            put(part, map.iter_mut().nth(at).unwrap().1, rest);
        }
        (Value::Array(list), [first, rest @ ..]) if !list.is_empty() => {
            let at = first.index(list.len());
            put(part, &mut list[at], rest);
        }
        (value, _) => *value = part,
    }
}

/// JSON, and parts that a tokenizer can have, some of which its library panics on.
pub fn any_part() -> impl Strategy<Value = Value> {
    let parts = vec![
        json!({ "type": "Precompiled", "precompiled_charsmap": "AAAA" }),
        json!({ "type": "Prepend", "prepend": "" }),
        json!({ "type": "Sequence", "normalizers": [], "decoders": [], "pretokenizers": [], "processors": [] }),
        json!({ "type": "Replace", "pattern": { "Regex": "(" }, "content": "" }),
        json!({ "type": "Replace", "pattern": { "String": "" }, "content": "x" }),
        json!({ "type": "Split", "pattern": { "Regex": "" }, "behavior": "Isolated", "invert": false }),
        json!({
            "type": "TemplateProcessing", "single": [{ "SpecialToken": { "id": "x", "type_id": 0 } }], "pair": [],
            "special_tokens": {},
        }),
        json!({ "type": "BertProcessing", "sep": ["a", 4_000_000_000_u32], "cls": ["b", 1] }),
        json!({ "type": "Strip", "content": "x", "start": u32::MAX, "stop": u32::MAX }),
        json!({ "type": "Unigram", "unk_id": 7, "vocab": [["a", 0.0]], "byte_fallback": true }),
        json!({
            "type": "BPE", "vocab": { "a": 0, "b": 1, "ab": 2 }, "merges": [["a", "b"]], "dropout": 2.0,
            "unk_token": "q", "continuing_subword_prefix": "abc",
        }),
        json!([{
            "id": 4_000_000_000_u32, "content": "", "special": true, "single_word": true, "lstrip": true,
            "rstrip": true, "normalized": true,
        }]),
    ];
    prop_oneof![any_json(), prop::sample::select(parts)]
}
