//! GGUF files of version 3, written by hand: any header, and small models to be changed.

use std::fs;

use quantlab::error::Result;
use quantlab::model::{DecoderConfig, LoadOptions, Loaded, load_model};
use quantlab::source::{ModelFiles, ModelId};
use tempfile::TempDir;

/// What is said or meant, and how a file becomes so.
pub type Case = (&'static str, fn(&mut Writer));

/// Formats of numbers, and how many bytes those of 32 numbers take.
pub const F32: (u32, usize) = (0, 128);
pub const Q4_0: (u32, usize) = (2, 18);
pub const Q8_0: (u32, usize) = (8, 34);

const TEXT: u32 = 8;
const ARRAY: u32 = 9;

/// Letters, what becomes of them, and one of each kind that is no part of words.
pub const TOKENS: [&str; 16] =
    ["a", "b", "c", "d", "1", "2", "Ġ", "ab", "cd", "abcd", "Ġa", "12", "e", "<|end|>", "<|say|>", "[PAD15]"];
pub const TYPES: [i32; 16] = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4, 5];
pub const MERGES: [&str; 5] = ["a b", "c d", "ab cd", "Ġ a", "1 2"];
pub const END: u32 = 13;
pub const SAY: u32 = 14;
/// Rows of a bias of queries, and of one of keys.
pub const QUERIES: u64 = 32;
pub const KEYS: u64 = 16;

/// A value of the metadata.
#[derive(Clone)]
pub struct Value {
    kind: u32,
    bytes: Vec<u8>,
}

#[derive(Clone)]
struct Tensor {
    name: String,
    /// From the slowest dimension to the fastest.
    shape: Vec<u64>,
    kind: u32,
    bytes: Vec<u8>,
    /// Where the header says that it begins; `None`: after those before it.
    offset: Option<u64>,
}

#[derive(Clone)]
pub struct Writer {
    values: Vec<(String, Value)>,
    tensors: Vec<Tensor>,
    data: Vec<u8>,
    alignment: usize,
}

pub fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// What is written of an array before its entries.
pub fn array(kind: u32, count: u64) -> Vec<u8> {
    [kind.to_le_bytes().to_vec(), count.to_le_bytes().to_vec()].concat()
}

pub fn floats(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// A file with nothing in it.
pub fn plain() -> Writer {
    Writer { values: Vec::new(), tensors: Vec::new(), data: Vec::new(), alignment: 32 }
}

/// A Llama of two blocks that all engines compute: 2 heads of 16 numbers share one of keys and values.
pub fn llama() -> Writer {
    model("llama")
}

/// The same as a Qwen2, which has biases.
pub fn qwen2() -> Writer {
    let mut file = model("qwen2");
    for block in 0..2 {
        for (part, rows) in [("attn_q", QUERIES), ("attn_k", KEYS), ("attn_v", KEYS)] {
            file.add(&format!("blk.{block}.{part}.bias"), &[rows], F32);
        }
    }
    file
}

fn model(family: &str) -> Writer {
    let mut file = plain();
    file.set("general.architecture", family);
    for (key, size) in [
        ("context_length", 64_u32),
        ("embedding_length", 32),
        ("feed_forward_length", 64),
        ("block_count", 2),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
    ] {
        file.set(&format!("{family}.{key}"), size);
    }
    file.set(&format!("{family}.attention.layer_norm_rms_epsilon"), 1e-5_f32);
    file.set(&format!("{family}.rope.freq_base"), 10_000.0_f32);
    file.set("tokenizer.ggml.model", "gpt2");
    file.set("tokenizer.ggml.pre", "gpt-2");
    file.set("tokenizer.ggml.tokens", TOKENS.to_vec());
    file.set("tokenizer.ggml.token_type", TYPES.to_vec());
    file.set("tokenizer.ggml.merges", MERGES.to_vec());
    file.set("tokenizer.ggml.bos_token_id", END);
    file.set("tokenizer.ggml.eos_token_id", END);
    file.add("token_embd.weight", &[16, 32], Q8_0);
    for block in 0..2 {
        for (part, shape, kind) in [
            ("attn_norm", &[32][..], F32),
            ("attn_q", &[QUERIES, 32], Q4_0),
            ("attn_k", &[KEYS, 32], Q8_0),
            ("attn_v", &[KEYS, 32], F32),
            ("attn_output", &[32, 32], Q4_0),
            ("ffn_norm", &[32], F32),
            ("ffn_gate", &[64, 32], Q4_0),
            ("ffn_up", &[64, 32], Q8_0),
            ("ffn_down", &[32, 64], Q4_0),
        ] {
            file.add(&format!("blk.{block}.{part}.weight"), shape, kind);
        }
    }
    file.add("output_norm.weight", &[32], F32);
    file.add("output.weight", &[16, 32], Q8_0);
    file
}

/// Numbers of a tensor, not the same for any two names.
fn numbers(name: &str, (kind, bytes): (u32, usize), count: u64) -> Vec<u8> {
    let seed = name.bytes().fold(7_usize, |sum, byte| (sum * 31 + usize::from(byte)) % 65_521);
    let byte = |i: usize| (seed + i * 97 + i * i / 7) as u8;
    if kind == F32.0 {
        return floats((0..count as usize).map(|i| (f32::from(byte(i)) - 128.0) / 256.0 + 0.7));
    }
    let scale = half::f16::from_f32(if kind == Q4_0.0 { 0.03 } else { 0.002 }).to_le_bytes();
    let block = |block: usize| scale.into_iter().chain((2..bytes).map(move |i| byte(block * bytes + i)));
    (0..count as usize / 32).flat_map(block).collect()
}

impl Writer {
    /// A value whatever its bytes are, after those that are there, of the same key too.
    pub fn value(mut self, key: &str, kind: u32, bytes: &[u8]) -> Self {
        self.values.push((key.to_owned(), Value { kind, bytes: bytes.to_vec() }));
        self
    }

    /// A tensor of which the header says this.
    pub fn tensor(mut self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        let (name, shape) = (name.to_owned(), shape.to_vec());
        self.tensors.push(Tensor { name, shape, kind, bytes: Vec::new(), offset: Some(offset) });
        self
    }

    /// As many bytes after the header.
    pub fn data(mut self, len: usize) -> Self {
        self.data = vec![0; len];
        self
    }

    pub fn set(&mut self, key: &str, value: impl Into<Value>) {
        self.remove(key);
        self.values.push((key.to_owned(), value.into()));
    }

    pub fn remove(&mut self, key: &str) {
        self.values.retain(|(known, _)| known != key);
    }

    /// A tensor of some numbers.
    pub fn add(&mut self, name: &str, shape: &[u64], format: (u32, usize)) {
        let bytes = numbers(name, format, shape.iter().product());
        self.add_bytes(name, shape, format, bytes);
    }

    /// A tensor of these numbers, instead of one of this name.
    pub fn add_bytes(&mut self, name: &str, shape: &[u64], (kind, _): (u32, usize), bytes: Vec<u8>) {
        self.drop_tensor(name);
        let (name, shape) = (name.to_owned(), shape.to_vec());
        self.tensors.push(Tensor { name, shape, kind, bytes, offset: None });
    }

    pub fn drop_tensor(&mut self, name: &str) {
        self.tensors.retain(|tensor| tensor.name != name);
    }

    pub fn rename(&mut self, from: &str, to: &str) {
        self.tensors.iter_mut().find(|tensor| tensor.name == from).unwrap().name = to.to_owned();
    }

    /// Tensors begin at multiples of so many bytes.
    pub fn align(&mut self, alignment: u32) {
        self.set("general.alignment", alignment);
        self.alignment = alignment as usize;
    }

    pub fn bytes(&self) -> Vec<u8> {
        let counts = [self.tensors.len() as u64, self.values.len() as u64].map(u64::to_le_bytes).concat();
        let mut bytes = [b"GGUF", &3_u32.to_le_bytes()[..], &counts].concat();
        for (key, value) in &self.values {
            bytes.extend([text(key), value.kind.to_le_bytes().to_vec(), value.bytes.clone()].concat());
        }
        let mut data = self.data.clone();
        for tensor in &self.tensors {
            bytes.extend([text(&tensor.name), (tensor.shape.len() as u32).to_le_bytes().to_vec()].concat());
            tensor.shape.iter().rev().for_each(|side| bytes.extend(side.to_le_bytes()));
            bytes.extend(tensor.kind.to_le_bytes());
            let offset = tensor.offset.unwrap_or_else(|| {
                data.resize(data.len().next_multiple_of(self.alignment), 0);
                data.len() as u64
            });
            bytes.extend(offset.to_le_bytes());
            data.extend(&tensor.bytes);
        }
        bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
        bytes.extend(data);
        bytes
    }

    /// The files that this one stands for.
    pub fn files(&self) -> Result<ModelFiles> {
        let (_folder, path) = on_disk(&self.bytes());
        path.parse::<ModelId>()?.resolve()
    }

    pub fn config(&self) -> Result<DecoderConfig> {
        DecoderConfig::read(&self.files()?.config)
    }

    /// As [`load`](Self::load), restored to float32.
    pub fn dequantize(&self) -> Result<Loaded> {
        let (_folder, path) = on_disk(&self.bytes());
        load_model(&[&path], &super::dequantized())
    }

    pub fn load(&self) -> Result<Loaded> {
        load_bytes(&self.bytes())
    }
}

pub fn load_bytes(bytes: &[u8]) -> Result<Loaded> {
    let (_folder, path) = on_disk(bytes);
    load_model(&[&path], &LoadOptions::default())
}

fn on_disk(bytes: &[u8]) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    (folder, path.to_str().unwrap().to_owned())
}

macro_rules! from_numbers {
    ($($number:ty = $kind:literal),+) => {$(
        impl From<$number> for Value {
            fn from(number: $number) -> Self {
                Self { kind: $kind, bytes: number.to_le_bytes().to_vec() }
            }
        }
    )+};
}

from_numbers! { u8 = 0, u16 = 2, u32 = 4, i32 = 5, f32 = 6, u64 = 10, i64 = 11, f64 = 12 }

impl From<bool> for Value {
    fn from(yes: bool) -> Self {
        Self { kind: 7, bytes: vec![u8::from(yes)] }
    }
}

impl From<&str> for Value {
    fn from(content: &str) -> Self {
        Self { kind: TEXT, bytes: text(content) }
    }
}

/// Of an empty one, texts.
impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(entries: Vec<T>) -> Self {
        let entries: Vec<Value> = entries.into_iter().map(Into::into).collect();
        let mut bytes = array(entries.first().map_or(TEXT, |entry| entry.kind), entries.len() as u64);
        entries.iter().for_each(|entry| bytes.extend(&entry.bytes));
        Self { kind: ARRAY, bytes }
    }
}
