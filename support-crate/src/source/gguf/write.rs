//! What a GGUF file begins with: metadata, and where its tensors are.
//!
//! Source: ggml's `docs/gguf.md`, version 3.

use super::{GgmlType, GgufValue};
use crate::error::{Error, Result};

/// Tensors begin at multiples of so many bytes.
pub(crate) const ALIGNMENT: usize = 32;
const VERSION: u32 = 3;

/// A tensor that is to be written.
#[derive(Debug, Clone)]
pub(crate) struct TensorPlan {
    pub name: String,
    pub kind: GgmlType,
    /// From the slowest dimension to the fastest.
    pub shape: Vec<usize>,
}

impl TensorPlan {
    /// Bytes of the tensor.
    ///
    /// # Errors
    /// More than there can be; rows that are not whole blocks.
    pub fn len(&self) -> Result<usize> {
        let (block, size) = (self.kind.block_len(), self.kind.block_bytes());
        let numbers = self.shape.iter().try_fold(1_usize, |product, &side| product.checked_mul(side));
        let is_whole = self.shape.last().is_some_and(|columns| columns.is_multiple_of(block));
        numbers.filter(|_| is_whole).and_then(|numbers| (numbers / block).checked_mul(size)).ok_or_else(|| {
            Error::system(format!("tensor `{}` of shape {:?} in {}", self.name, self.shape, self.kind.name()))
        })
    }
}

/// The bytes before the first tensor's. Each tensor begins at the next multiple of [`ALIGNMENT`] after the one before.
///
/// # Errors
/// As [`TensorPlan::len`].
pub(crate) fn header(metadata: &[(String, GgufValue)], tensors: &[TensorPlan]) -> Result<Vec<u8>> {
    let mut bytes = [b"GGUF", &VERSION.to_le_bytes()[..]].concat();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        push_text(&mut bytes, key);
        push_value(&mut bytes, value);
    }
    let mut offset = 0_usize;
    for tensor in tensors {
        push_text(&mut bytes, &tensor.name);
        bytes.extend((tensor.shape.len() as u32).to_le_bytes());
        tensor.shape.iter().rev().for_each(|&side| bytes.extend((side as u64).to_le_bytes()));
        bytes.extend(tensor.kind.id().to_le_bytes());
        bytes.extend((offset as u64).to_le_bytes());
        let end = offset.checked_add(tensor.len()?).and_then(|end| end.checked_next_multiple_of(ALIGNMENT));
        offset = end.ok_or_else(|| Error::system("the model is larger than a file can be"))?;
    }
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    Ok(bytes)
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// A value, after the number of its kind. llama.cpp wants sizes in 32 bits.
fn push_value(bytes: &mut Vec<u8>, value: &GgufValue) {
    let mut push = |kind: u32, value: &[u8]| {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
    };
    match value {
        GgufValue::Whole(number) => match (u32::try_from(*number), u64::try_from(*number)) {
            (Ok(number), _) => push(UINT32, &number.to_le_bytes()),
            (_, Ok(number)) => push(UINT64, &number.to_le_bytes()),
            _ => push(INT64, &(*number as i64).to_le_bytes()),
        },
        GgufValue::Float(number) => push(FLOAT32, &(*number as f32).to_le_bytes()),
        GgufValue::Bool(yes) => push(BOOL, &[u8::from(*yes)]),
        GgufValue::Text(text) => {
            push(STRING, &[]);
            push_text(bytes, text);
        }
        GgufValue::Texts(texts) => {
            push_array(bytes, STRING, texts.len());
            texts.iter().for_each(|text| push_text(bytes, text));
        }
        GgufValue::Wholes(numbers) => match numbers.iter().map(|&number| i32::try_from(number)).collect() {
            Ok::<Vec<i32>, _>(numbers) => {
                push_array(bytes, INT32, numbers.len());
                numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
            }
            Err(_) => {
                push_array(bytes, INT64, numbers.len());
                numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
            }
        },
        GgufValue::Floats(numbers) => {
            push_array(bytes, FLOAT32, numbers.len());
            numbers.iter().for_each(|&number| bytes.extend((number as f32).to_le_bytes()));
        }
    }
}

fn push_array(bytes: &mut Vec<u8>, kind: u32, len: usize) {
    bytes.extend([ARRAY, kind].map(u32::to_le_bytes).concat());
    bytes.extend((len as u64).to_le_bytes());
}

const UINT32: u32 = 4;
const INT32: u32 = 5;
const FLOAT32: u32 = 6;
const BOOL: u32 = 7;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const UINT64: u32 = 10;
const INT64: u32 = 11;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Gguf;

    #[test]
    fn what_is_written_is_read_again() {
        let metadata = [
            ("size", GgufValue::Whole(7)),
            ("large", GgufValue::Whole(1 << 40)),
            ("negative", GgufValue::Whole(-3)),
            ("number", GgufValue::Float(0.25)),
            ("yes", GgufValue::Bool(true)),
            ("text", GgufValue::Text("é\n".to_owned())),
            ("texts", GgufValue::Texts(vec![String::new(), "b".to_owned()])),
            ("wholes", GgufValue::Wholes(vec![-1, 2])),
            ("larger", GgufValue::Wholes(vec![1 << 40])),
            ("floats", GgufValue::Floats(vec![0.5])),
        ];
        let metadata: Vec<(String, GgufValue)> =
            metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let plan =
            |name: &str, kind, shape: &[usize]| TensorPlan { name: name.to_owned(), kind, shape: shape.to_vec() };
        let tensors = [plan("a", GgmlType::Q4_0, &[3, 32]), plan("b", GgmlType::F32, &[5])];
        let mut bytes = header(&metadata, &tensors).unwrap();
        let data = bytes.len();
        assert_eq!(data % ALIGNMENT, 0);
        bytes.resize(data + 64 + 20, 0);
        let read = Gguf::read(&bytes).unwrap();
        assert_eq!(read.metadata().len(), metadata.len());
        for (key, value) in &metadata {
            assert_eq!(&read.metadata()[key], value, "{key}");
        }
        let tensor = |name: &str| (read.tensors()[name].shape.clone(), read.tensors()[name].range.clone());
        assert_eq!(tensor("a"), (vec![3, 32], data..data + 54));
        assert_eq!(tensor("b"), (vec![5], data + 64..data + 84));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for shape in [vec![usize::MAX, 32], vec![4, 31], vec![]] {
            let tensor = TensorPlan { name: "a".to_owned(), kind: GgmlType::Q8_0, shape };
            assert!(header(&[], &[tensor]).is_err());
        }
    }
}
