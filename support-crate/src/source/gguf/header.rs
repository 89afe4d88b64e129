//! What a GGUF file says: metadata, and where its tensors are.
//!
//! Source: ggml's `docs/gguf.md`, versions 2 and 3.

use std::collections::BTreeMap;
use std::ops::Range;

use super::types::GgmlType;
use crate::error::{Error, Result};
use crate::source::check_name;

/// The header of a GGUF file.
#[derive(Debug)]
pub struct Gguf {
    metadata: BTreeMap<String, GgufValue>,
    tensors: BTreeMap<String, GgufTensor>,
}

/// What the file says of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufTensor {
    /// The format of its numbers.
    pub kind: GgmlType,
    /// From the slowest dimension to the fastest: a matrix is (rows, columns).
    pub shape: Vec<usize>,
    /// Its bytes in the file.
    pub range: Range<usize>,
}

/// A value of the metadata. Numbers of all kinds are one of two here.
#[derive(Debug, Clone, PartialEq)]
pub enum GgufValue {
    /// A whole number, with or without sign.
    Whole(i128),
    /// A floating-point number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// Text.
    Text(String),
    /// Texts, such as a vocabulary.
    Texts(Vec<String>),
    /// Whole numbers.
    Wholes(Vec<i64>),
    /// Floating-point numbers.
    Floats(Vec<f64>),
}

/// The families that are read and written, by llama.cpp's names for them.
pub(crate) const FAMILIES: [&str; 8] = ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "smollm3", "gpt2"];
/// Entries of an array, more than any vocabulary has.
const LONGEST_ARRAY: u64 = 1 << 22;
/// Bytes of all arrays of numbers and texts, as they are held here.
const MOST_HELD: usize = 1 << 30;
/// Bytes of a name.
const LONGEST_NAME: u64 = 1 << 16;
const MOST_DIMENSIONS: u32 = 4;
/// Tensors, and entries of metadata.
const MOST_ENTRIES: u64 = 1 << 16;

impl Gguf {
    /// Whether bytes begin as a GGUF file does.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(b"GGUF")
    }

    /// Reads and checks the header of a whole file.
    ///
    /// # Errors
    /// No GGUF file, one of another version, or one that contradicts itself: counts, names, shapes or places that
    /// cannot be, or a format that is not known.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        if !Self::is_one(bytes) {
            return Err(Error::format("it does not begin with `GGUF`"));
        }
        let mut cursor = Cursor { bytes, at: 4, held: 0 };
        match cursor.u32()? {
            2 | 3 => (),
            version if matches!(version.swap_bytes(), 2 | 3) => {
                return Err(Error::format("it is a big-endian GGUF file").hint("get the little-endian file"));
            }
            version => {
                return Err(Error::format(format!("it has GGUF version {version}; versions 2 and 3 are supported"))
                    .hint("convert it again with a current llama.cpp"));
            }
        }
        let (tensor_count, value_count) = (cursor.u64()?, cursor.u64()?);
        // Each takes more bytes than these, so that no count promises more than the file can hold.
        for (what, count, each) in [("tensors", tensor_count, 24), ("metadata entries", value_count, 13)] {
            cursor.check_count(what, count, each)?;
            if count > MOST_ENTRIES {
                return Err(Error::format(format!("it has {count} {what}, more than any model has")));
            }
        }
        let mut metadata = BTreeMap::new();
        for _ in 0..value_count {
            let key = cursor.name()?;
            let kind = cursor.u32()?;
            let value = cursor.value(kind).map_err(|error| error.context(format!("metadata `{key}`")))?;
            if metadata.insert(key.clone(), value).is_some() {
                return Err(Error::format(format!("metadata has `{key}` twice")));
            }
        }
        let mut header = Self { metadata, tensors: BTreeMap::new() };
        let alignment = match header.metadata.get("general.alignment") {
            None => 32,
            Some(GgufValue::Whole(alignment @ 1..=65_536)) if (*alignment as usize).is_power_of_two() => {
                *alignment as usize
            }
            Some(other) => return Err(other.is_not("general.alignment", "a power of two")),
        };
        let listed = (0..tensor_count).map(|_| cursor.tensor()).collect::<Result<Vec<_>>>()?;
        let data =
            cursor.at.checked_next_multiple_of(alignment).filter(|&data| data <= bytes.len() || listed.is_empty());
        let data = data.ok_or_else(|| Error::format("it ends before its tensors begin"))?;
        let mut places = Vec::new();
        for (name, kind, shape, offset) in listed {
            let of_tensor = |what: String| Error::format(format!("tensor `{name}` {what}"));
            let columns = shape.last().copied().unwrap_or(1);
            if !columns.is_multiple_of(kind.block_len()) {
                let (kind, block) = (kind.name(), kind.block_len());
                return Err(of_tensor(format!(
                    "has rows of {columns} numbers, which are not whole blocks of {block} ({kind})"
                )));
            }
            let numbers = shape.iter().try_fold(1_usize, |product, &side| product.checked_mul(side));
            let len = numbers.and_then(|numbers| (numbers / kind.block_len()).checked_mul(kind.block_bytes()));
            let start = usize::try_from(offset).ok().and_then(|offset| data.checked_add(offset));
            let range = match (start, len) {
                (Some(start), Some(len)) => start.checked_add(len).map(|end| start..end),
                _ => None,
            };
            let range = range.filter(|range| range.end <= bytes.len()).ok_or_else(|| {
                of_tensor(format!("of shape {shape:?} lies beyond the end of the file"))
                    .hint("the file may be cut short; download or copy it again")
            })?;
            if !(range.start - data).is_multiple_of(alignment) {
                return Err(of_tensor(format!("begins at {offset}, which is not a multiple of {alignment}")));
            }
            places.push((range.clone(), name.clone()));
            if header.tensors.insert(name.clone(), GgufTensor { kind, shape, range }).is_some() {
                return Err(Error::format(format!("there are two tensors `{name}`")));
            }
        }
        places.sort_by_key(|(range, _)| range.start);
        if let Some(pair) = places.windows(2).find(|pair| pair[0].0.end > pair[1].0.start) {
            return Err(Error::format(format!("tensors `{}` and `{}` overlap", pair[0].1, pair[1].1)));
        }
        Ok(header)
    }

    /// The tensors, by name.
    pub fn tensors(&self) -> &BTreeMap<String, GgufTensor> {
        &self.tensors
    }

    /// The metadata, by key.
    pub fn metadata(&self) -> &BTreeMap<String, GgufValue> {
        &self.metadata
    }

    /// A text.
    ///
    /// # Errors
    /// None of this key, or no text.
    pub fn text(&self, key: &str) -> Result<&str> {
        match self.wanted(key)? {
            GgufValue::Text(text) => Ok(text),
            other => Err(other.is_not(key, "a string")),
        }
    }

    /// Texts.
    ///
    /// # Errors
    /// None of this key, or no texts.
    pub fn texts(&self, key: &str) -> Result<&[String]> {
        match self.wanted(key)? {
            GgufValue::Texts(texts) => Ok(texts),
            // Of an empty array, the type says nothing.
            GgufValue::Wholes(none) if none.is_empty() => Ok(&[]),
            other => Err(other.is_not(key, "strings")),
        }
    }

    /// A number of things.
    ///
    /// # Errors
    /// None of this key, or no such number.
    pub fn size(&self, key: &str) -> Result<usize> {
        let value = self.wanted(key)?;
        let size = if let GgufValue::Whole(number) = value { usize::try_from(*number).ok() } else { None };
        size.ok_or_else(|| value.is_not(key, "a size"))
    }

    /// A floating-point number.
    ///
    /// # Errors
    /// None of this key, or no number.
    pub fn float(&self, key: &str) -> Result<f64> {
        match self.wanted(key)? {
            GgufValue::Float(number) if number.is_finite() => Ok(*number),
            GgufValue::Whole(number) => Ok(*number as f64),
            other => Err(other.is_not(key, "a number")),
        }
    }

    /// Yes or no.
    ///
    /// # Errors
    /// None of this key, or neither.
    pub fn flag(&self, key: &str) -> Result<bool> {
        match self.wanted(key)? {
            GgufValue::Bool(yes) => Ok(*yes),
            other => Err(other.is_not(key, "a boolean")),
        }
    }

    /// What `read`, one of the functions above, makes of a value, or `None` if there is none of this key.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn optional<'a, T>(&'a self, key: &str, read: impl Fn(&'a Self, &str) -> Result<T>) -> Result<Option<T>> {
        self.metadata.contains_key(key).then(|| read(self, key)).transpose()
    }

    /// The family of the model, by llama.cpp's name for it.
    ///
    /// # Errors
    /// None is named, or one that is not read.
    pub fn family(&self) -> Result<&str> {
        let family = self.text("general.architecture")?;
        if !FAMILIES.contains(&family) {
            return Err(Error::format(format!(
                "GGUF models with the architecture {} are not supported",
                clipped(family)
            ))
            .hint(format!(
                "supported architectures are {} (llama is also that of Mistral and SmolLM2); load others from safetensors",
                FAMILIES.join(", ")
            )));
        }
        Ok(family)
    }

    fn wanted(&self, key: &str) -> Result<&GgufValue> {
        self.metadata.get(key).ok_or_else(|| Error::format(format!("metadata lacks `{key}`")))
    }
}

impl GgufValue {
    fn is_not(&self, key: &str, wanted: &str) -> Error {
        let found = match self {
            Self::Text(text) => format!("the string {}", clipped(text)),
            Self::Texts(texts) => format!("a list of {} strings", texts.len()),
            Self::Wholes(numbers) => format!("a list of {} numbers", numbers.len()),
            Self::Floats(numbers) => format!("a list of {} numbers", numbers.len()),
            Self::Whole(number) => number.to_string(),
            Self::Float(number) => number.to_string(),
            Self::Bool(yes) => yes.to_string(),
        };
        Error::format(format!("metadata `{key}` is {found}, not {wanted}"))
    }
}

/// A text of a file for a message, which may be of any length.
pub(super) fn clipped(text: &str) -> String {
    let start: String = text.chars().take(60).collect();
    if start.len() < text.len() { format!("{start:?}...") } else { format!("{text:?}") }
}

/// What is left of a header.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Bytes that arrays take here.
    held: usize,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8]> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let taken = end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(|| {
            Error::format("it ends within its header").hint("the file may be cut short; download or copy it again")
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N as u64)?);
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.number().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.number().map(u64::from_le_bytes)
    }

    /// Refuses a count of things that take at least so many bytes each.
    fn check_count(&self, what: &str, count: u64, each: u64) -> Result<()> {
        let left = (self.bytes.len() - self.at) as u64;
        if count > left / each {
            return Err(Error::format(format!("it promises {count} {what}, but has only {left} more bytes")));
        }
        Ok(())
    }

    fn text(&mut self) -> Result<String> {
        let len = self.u64()?;
        let bytes = self.take(len)?;
        let text = std::str::from_utf8(bytes).map_err(|_| Error::format("a string is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn name(&mut self) -> Result<String> {
        let start = self.at;
        let name = self.text()?;
        if (self.at - start) as u64 > LONGEST_NAME {
            return Err(Error::format(format!("a name has {} bytes, more than any name needs", name.len())));
        }
        check_name(&name)?;
        Ok(name)
    }

    fn value(&mut self, kind: u32) -> Result<GgufValue> {
        Ok(match kind {
            0 => GgufValue::Whole(i128::from(self.number::<1>()?[0])),
            1 => GgufValue::Whole(i128::from(i8::from_le_bytes(self.number()?))),
            2 => GgufValue::Whole(i128::from(u16::from_le_bytes(self.number()?))),
            3 => GgufValue::Whole(i128::from(i16::from_le_bytes(self.number()?))),
            4 => GgufValue::Whole(i128::from(self.u32()?)),
            5 => GgufValue::Whole(i128::from(i32::from_le_bytes(self.number()?))),
            6 => GgufValue::Float(f64::from(f32::from_le_bytes(self.number()?))),
            7 => match self.number::<1>()?[0] {
                0 => GgufValue::Bool(false),
                1 => GgufValue::Bool(true),
                other => return Err(Error::format(format!("a boolean has the value {other}"))),
            },
            8 => GgufValue::Text(self.text()?),
            9 => return self.array(),
            10 => GgufValue::Whole(i128::from(self.u64()?)),
            11 => GgufValue::Whole(i128::from(i64::from_le_bytes(self.number()?))),
            12 => GgufValue::Float(f64::from_le_bytes(self.number()?)),
            other => return Err(Error::format(format!("a value has the unknown type {other}"))),
        })
    }

    fn array(&mut self) -> Result<GgufValue> {
        let (kind, count) = (self.u32()?, self.u64()?);
        let (each, held) = match kind {
            0 | 1 | 7 => (1, 8),
            2 | 3 => (2, 8),
            4..=6 => (4, 8),
            10..=12 => (8, 8),
            8 => (8, size_of::<String>()),
            9 => return Err(Error::format("arrays of arrays are not supported")),
            other => return Err(Error::format(format!("an array has the unknown type {other}"))),
        };
        self.check_count("array entries", count, each)?;
        self.held = self.held.saturating_add((count as usize).saturating_mul(held));
        if count > LONGEST_ARRAY || self.held > MOST_HELD {
            return Err(Error::format(format!("an array has {count} entries, more than any vocabulary")));
        }
        let count = count as usize;
        match kind {
            8 => (0..count).map(|_| self.text()).collect::<Result<_>>().map(GgufValue::Texts),
            6 | 12 => {
                let float = |value| if let GgufValue::Float(float) = value { float } else { 0.0 };
                (0..count).map(|_| self.value(kind).map(float)).collect::<Result<_>>().map(GgufValue::Floats)
            }
            _ => {
                let whole = |value| match value {
                    GgufValue::Whole(whole) => i64::try_from(whole)
                        .map_err(|_| Error::format(format!("an array has the number {whole}, which is too large"))),
                    GgufValue::Bool(yes) => Ok(i64::from(yes)),
                    _ => Ok(0),
                };
                (0..count).map(|_| self.value(kind).and_then(whole)).collect::<Result<_>>().map(GgufValue::Wholes)
            }
        }
    }

    /// Name, format, shape, and where its data begin behind the header.
    fn tensor(&mut self) -> Result<(String, GgmlType, Vec<usize>, u64)> {
        let name = self.name()?;
        let of_tensor = |what: String| Error::format(format!("tensor `{name}` {what}"));
        let dimensions = self.u32()?;
        if dimensions > MOST_DIMENSIONS {
            return Err(of_tensor(format!("has {dimensions} dimensions")));
        }
        let mut shape = Vec::new();
        for _ in 0..dimensions {
            let side = self.u64()?;
            shape.push(usize::try_from(side).map_err(|_| of_tensor(format!("has a dimension of {side}")))?);
        }
        shape.reverse();
        let id = self.u32()?;
        let kind = GgmlType::of(id).ok_or_else(|| {
            let known: Vec<&str> = GgmlType::ALL.iter().map(|kind| kind.name()).collect();
            of_tensor(format!("has the unknown format number {id}"))
                .hint(format!("supported formats are {}; get the model in one of these", known.join(", ")))
        })?;
        Ok((name, kind, shape, self.u64()?))
    }
}
