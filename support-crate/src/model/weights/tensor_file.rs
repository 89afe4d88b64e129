//! One file of tensors, in whatever container.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::catch_unwind;
use std::sync::Arc;

use memmap2::Mmap;
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use super::convert::{self, Wanted};
use super::entry::{Entry, Numbers};
use super::gguf::{self, BlockRows};
use crate::buffer::{Buffer, Mapped};
use crate::error::{Context, Error, Result};
use crate::quant::Part;
use crate::source::{GgmlType, Gguf, ModelFile, check_is_content, check_name, map};

/// A file whose list of tensors has been read and checked.
pub(super) struct TensorFile {
    name: String,
    bytes: Bytes,
    tensors: BTreeMap<String, Entry>,
    /// Whether a tensor that holds a NaN or an infinity is an error.
    check_finite: bool,
}

/// The tensors of a safetensors file.
///
/// Source: the format's description in huggingface/safetensors `README.md`.
fn read_safetensors(bytes: &[u8]) -> Result<BTreeMap<String, Entry>> {
    // Offsets whose sum overflows make it panic where overflow is checked for.
    let (header_len, metadata) =
        catch_unwind(|| SafeTensors::read_metadata(bytes)).unwrap_or(Err(SafeTensorError::MetadataIncompleteBuffer))?;
    let start = size_of::<u64>() + header_len;
    let entry = |(name, info): (String, &safetensors::tensor::TensorInfo)| {
        let range = start + info.data_offsets.0..start + info.data_offsets.1;
        (name, Entry { numbers: Numbers::Plain(info.dtype), shape: info.shape.clone(), range })
    };
    Ok(metadata.tensors().into_iter().map(entry).collect())
}

enum Bytes {
    Mapped(Arc<Mmap>),
    Held(Cow<'static, [u8]>),
}

impl TensorFile {
    pub fn open(file: &ModelFile, check_finite: bool) -> Result<Self> {
        let name = file.to_string();
        let bytes = match file {
            ModelFile::Bytes { bytes, .. } => {
                check_is_content(&name, bytes)?;
                Bytes::Held(bytes.clone())
            }
            ModelFile::Path(path) => Bytes::Mapped(Arc::new(map(path)?)),
        };
        if Gguf::is_one(bytes.as_slice()) {
            let tensors = gguf::read(bytes.as_slice()).context(|| name.clone())?;
            return Ok(Self { name, bytes, tensors, check_finite });
        }
        let tensors = read_safetensors(bytes.as_slice()).map_err(|cause| {
            cause
                .context(format!("{name} is not a complete safetensors file"))
                .hint("the file may be cut short; download or copy it again")
        })?;
        tensors.keys().try_for_each(|tensor| check_name(tensor)).context(|| name.clone())?;
        Ok(Self { name, bytes, tensors, check_finite })
    }

    /// The formats of blocks that tensors are in.
    pub fn formats(&self) -> impl Iterator<Item = GgmlType> {
        self.tensors.values().filter_map(|entry| match entry.numbers {
            Numbers::Blocks { kind, .. } if kind.block_len() > 1 => Some(kind),
            _ => None,
        })
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.tensors.keys()
    }

    /// Where a tensor of this shape is.
    pub fn find(&self, name: &str, shape: &[usize]) -> Result<&Entry> {
        let entry = self.entry(name)?;
        if entry.shape != shape {
            return Err(Error::format(format!(
                "{self}: tensor `{name}` has shape {:?}, expected {shape:?}",
                entry.shape
            ))
            .hint("do config.json and the weights belong to the same model?"));
        }
        Ok(entry)
    }

    /// The numbers of a tensor of this shape in place in the mapped file, if they are stored there in this format and
    /// are not to be transposed.
    pub fn mapped<T: Wanted>(&self, name: &str, shape: &[usize], transpose: bool) -> Result<Option<Mapped<T>>> {
        let entry = self.find(name, shape)?;
        if !transpose
            && entry.is_plain(T::PRECISION)
            && let Bytes::Mapped(map) = &self.bytes
            && let Some(numbers) = Mapped::<T>::new(map, entry.range.clone())
        {
            numbers.read_ahead();
            self.check(name, !self.check_finite || convert::all_finite(&numbers))?;
            return Ok(Some(numbers));
        }
        Ok(None)
    }

    /// Whether a matrix is in blocks of several numbers.
    pub fn is_in_blocks(&self, name: &str, shape: [usize; 2]) -> Result<bool> {
        let numbers = self.find(name, &shape)?.numbers;
        Ok(matches!(numbers, Numbers::Blocks { kind, .. } if kind.block_len() > 1))
    }

    /// A matrix in blocks, in place where the file is mapped, and whether numbers that are NaN or infinite are an error.
    pub fn blocks(&self, name: &str, shape: [usize; 2]) -> Result<(BlockRows, bool)> {
        let entry = self.find(name, &shape)?;
        let Numbers::Blocks { kind, paired } = entry.numbers else {
            return Err(Error::format(format!("{self}: tensor `{name}` holds {}, no blocks", entry.numbers)));
        };
        let (bytes, pages) = self.part(name, entry)?;
        let bytes = pages.map_or_else(|| Buffer::Owned(bytes.to_vec()), Buffer::Mapped);
        Ok((BlockRows::new(bytes, (kind, paired), shape), self.check_finite))
    }

    /// Reads as many numbers of a tensor of this shape as `to` has room for, from `start` on, and converts them; a
    /// matrix is transposed if `transpose`, in whole rows.
    pub fn read_to<T: Wanted>(
        &self,
        name: &str,
        shape: &[usize],
        transpose: bool,
        start: usize,
        to: &mut [T],
    ) -> Result<()> {
        let entry = self.find(name, shape)?;
        let (bytes, _pages) = self.part(name, entry)?;
        let columns = entry.shape.last().copied().filter(|_| transpose);
        let dtype = match entry.numbers {
            Numbers::Plain(dtype) => dtype,
            Numbers::Blocks { .. } | Numbers::PlusOne(_) if transpose => {
                return Err(Error::format(format!(
                    "{self}: tensor `{name}` would have to be transposed, but is stored in blocks"
                )));
            }
            Numbers::PlusOne(kind) => {
                let columns = entry.shape.last().copied().unwrap_or(1);
                let finite = gguf::restore(bytes, (kind, None, 1.0), columns, start, to);
                return self.check(name, !self.check_finite || finite);
            }
            Numbers::Blocks { kind, paired } => {
                // A bias has a number for each row.
                let columns = match (entry.shape.as_slice(), paired) {
                    ([_], Some(_)) | ([], _) => 1,
                    ([.., columns], _) => *columns,
                };
                let finite = gguf::restore(bytes, (kind, paired, 0.0), columns, start, to);
                return self.check(name, !self.check_finite || finite);
            }
        };
        let finite = match dtype {
            Dtype::F32 => convert::read::<f32, T>(bytes, columns, start, to),
            Dtype::BF16 => convert::read::<half::bf16, T>(bytes, columns, start, to),
            Dtype::F16 => convert::read::<half::f16, T>(bytes, columns, start, to),
            Dtype::F64 => convert::read::<f64, T>(bytes, columns, start, to),
            other => Err(Error::format(format!("it holds {other:?}, expected floating-point numbers"))),
        };
        let finite = finite.context(|| format!("{self}: tensor `{name}`"))?;
        self.check(name, !self.check_finite || finite)
    }

    fn check(&self, name: &str, finite: bool) -> Result<()> {
        if finite {
            return Ok(());
        }
        Err(Error::format(format!("{self}: tensor `{name}` holds a NaN or an infinity"))
            .hint("the file is damaged, or the model's training went wrong; download it again or use another model"))
    }

    /// Whether there is a tensor of bytes by this name.
    pub fn has_bytes(&self, name: &str) -> bool {
        self.tensors.get(name).is_some_and(|entry| matches!(entry.numbers, Numbers::Plain(Dtype::U8 | Dtype::I8)))
    }

    /// The content of a tensor of bytes, and what gives its pages back when it is dropped.
    pub fn bytes_of(&self, name: &str, signed: bool) -> Result<(&[u8], Option<Mapped<u8>>)> {
        let entry = self.entry(name)?;
        let expected = if signed { Dtype::I8 } else { Dtype::U8 };
        if entry.numbers != Numbers::Plain(expected) {
            return Err(Error::format(format!(
                "{self}: tensor `{name}` holds {}, expected {expected:?}",
                entry.numbers
            )));
        }
        self.part(name, entry)
    }

    /// Whether a tensor holds the same as one of another file, or of this one, bit by bit.
    pub fn has_same(&self, name: &str, (other, other_name): (&Self, &str)) -> Result<bool> {
        let (one, another) = (self.entry(name)?, other.entry(other_name)?);
        if one.numbers != another.numbers || one.shape != another.shape {
            return Ok(false);
        }
        let ((one, _pages), (another, _other_pages)) = (self.part(name, one)?, other.part(other_name, another)?);
        Ok(one == another)
    }

    /// A tensor as the file has it, whatever its numbers.
    pub fn whole(&self, name: &str) -> Result<Part> {
        let entry = self.entry(name)?;
        let Numbers::Plain(dtype) = entry.numbers else {
            return Err(Error::format(format!("{self}: tensor `{name}` is stored in blocks")));
        };
        let (bytes, pages) = self.part(name, entry)?;
        let bytes = pages.map_or_else(|| Buffer::Owned(bytes.to_vec()), Buffer::Mapped);
        Ok(Part { name: name.to_owned(), dtype, shape: entry.shape.clone(), bytes })
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        self.tensors.get(name).ok_or_else(|| Error::format(format!("{self} has no tensor `{name}`")))
    }

    /// The bytes of a tensor, and what gives their pages back when it is dropped.
    fn part(&self, name: &str, entry: &Entry) -> Result<(&[u8], Option<Mapped<u8>>)> {
        let pages = if let Bytes::Mapped(map) = &self.bytes { Mapped::new(map, entry.range.clone()) } else { None };
        let bytes = self.bytes.as_slice().get(entry.range.clone());
        let beyond = || Error::format(format!("{self}: tensor `{name}` lies beyond the end of the file"));
        Ok((bytes.ok_or_else(beyond)?, pages))
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(dtype) => write!(f, "{dtype:?}"),
            Self::Blocks { kind, .. } | Self::PlusOne(kind) => f.write_str(kind.name()),
        }
    }
}

/// The file's name.
impl fmt::Display for TensorFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Held(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn a_tensor_beyond_the_end_is_neither_read_nor_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short.safetensors");
        std::fs::write(&path, [7; 64]).unwrap();
        // SAFETY: nobody else has the file.
        let bytes = Bytes::Mapped(Arc::new(unsafe { Mmap::map(&std::fs::File::open(&path).unwrap()) }.unwrap()));
        // What `open` refuses: the header promises more than the file has.
        let entry = |range: Range<usize>| Entry { numbers: Numbers::Plain(Dtype::U8), shape: vec![range.len()], range };
        let tensors = BTreeMap::from([("whole".to_owned(), entry(16..64)), ("cut".to_owned(), entry(64..1_048_640))]);
        let file = TensorFile { name: "short".to_owned(), bytes, tensors, check_finite: false };
        assert_eq!(file.bytes_of("whole", false).unwrap().0, [7; 48]);
        let error = file.bytes_of("cut", false).unwrap_err().to_string();
        assert!(error.contains("`cut` lies beyond the end"), "{error}");
    }
}
