//! One safetensors file.
//!
//! Source: the format's description in huggingface/safetensors `README.md`.

use std::borrow::Cow;
use std::fmt;

use memmap2::{Mmap, UncheckedAdvice};
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};

use super::convert::{self, Slot};
use crate::error::{Context, Error, Result};
use crate::source::ModelFile;

/// A file whose header has been read and checked.
pub(super) struct Shard {
    name: String,
    bytes: Bytes,
    metadata: Metadata,
    data_start: usize,
}

enum Bytes {
    Mapped(Mmap),
    Held(Cow<'static, [u8]>),
}

impl Shard {
    pub fn open(file: &ModelFile) -> Result<Self> {
        let name = file.to_string();
        let bytes = match file {
            ModelFile::Bytes { bytes, .. } => Bytes::Held(bytes.clone()),
            ModelFile::Path(path) => {
                let handle = std::fs::File::open(path).context(|| format!("cannot open {name}"))?;
                // SAFETY: the map is read-only and private to this value. Like every program that maps
                // weights, this relies on nobody cutting the file short while the value lives.
                Bytes::Mapped(unsafe { Mmap::map(&handle) }.context(|| format!("cannot map {name}"))?)
            }
        };
        let (header_len, metadata) = SafeTensors::read_metadata(bytes.as_slice()).map_err(|cause| {
            Error::from(cause)
                .context(format!("{name} is not a whole safetensors file"))
                .hint("the file may be cut short; download or copy it again")
        })?;
        Ok(Self { name, bytes, metadata, data_start: size_of::<u64>() + header_len })
    }

    pub fn names(&self) -> impl Iterator<Item = String> {
        self.metadata.offset_keys().into_iter()
    }

    /// Where a tensor of this shape is.
    pub fn find(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo> {
        let info = self.metadata.info(name).ok_or_else(|| Error::format(format!("{self} has no tensor `{name}`")))?;
        if info.shape != shape {
            return Err(Error::format(format!(
                "{self}: tensor `{name}` has shape {:?}, expected {shape:?}",
                info.shape
            ))
            .hint("do config.json and the weights belong to the same model?"));
        }
        Ok(info)
    }

    /// Reads a tensor, and says whether all its numbers are finite.
    pub fn read(&self, name: &str, shape: &[usize], transpose: bool, slot: Slot<'_>) -> Result<bool> {
        let info = self.find(name, shape)?;
        let bytes = self.content(name, info)?;
        let columns = transpose.then(|| shape[shape.len() - 1]);
        let finite = match info.dtype {
            Dtype::F32 => convert::read::<f32>(bytes, columns, slot),
            Dtype::BF16 => convert::read::<half::bf16>(bytes, columns, slot),
            Dtype::F16 => convert::read::<half::f16>(bytes, columns, slot),
            Dtype::F64 => convert::read::<f64>(bytes, columns, slot),
            other => Err(Error::format(format!("it holds {other:?}, expected floating-point numbers"))),
        };
        self.give_back(bytes);
        finite.context(|| format!("{self}: tensor `{name}`"))
    }

    /// The content of a tensor of bytes.
    pub fn bytes_of(&self, name: &str, signed: bool) -> Result<Vec<u8>> {
        let info = self.metadata.info(name).ok_or_else(|| Error::format(format!("{self} has no tensor `{name}`")))?;
        let expected = if signed { Dtype::I8 } else { Dtype::U8 };
        if info.dtype != expected {
            return Err(Error::format(format!(
                "{self}: tensor `{name}` holds {:?}, expected {expected:?}",
                info.dtype
            )));
        }
        let content = self.content(name, info)?;
        let bytes = content.to_vec();
        self.give_back(content);
        Ok(bytes)
    }

    /// Where a tensor lies in the file.
    fn content(&self, name: &str, info: &TensorInfo) -> Result<&[u8]> {
        let (start, end) = info.data_offsets;
        let bytes = self.bytes.as_slice().get(self.data_start + start..self.data_start + end);
        bytes.ok_or_else(|| Error::format(format!("{self}: tensor `{name}` lies beyond the end of the file")))
    }

    /// Tells the system that a part of the file is not needed again soon. Pages at the edges that other tensors
    /// share are read from the system's cache once more.
    fn give_back(&self, content: &[u8]) {
        if let Bytes::Mapped(map) = &self.bytes {
            let start = content.as_ptr().addr() - map.as_ptr().addr();
            // SAFETY: `content` is a part of the map, so no other memory is dropped. The map is shared and only
            // read; dropped pages come back from the file.
            let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, content.len()) };
        }
    }
}

/// The file's name.
impl fmt::Display for Shard {
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
    use super::*;

    #[test]
    fn a_tensor_beyond_the_end_is_neither_read_nor_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short.safetensors");
        std::fs::write(&path, [7; 64]).unwrap();
        // SAFETY: nobody else has the file.
        let bytes = Bytes::Mapped(unsafe { Mmap::map(&std::fs::File::open(&path).unwrap()) }.unwrap());
        // What `open` refuses: the header promises more than the file has.
        let header = r#"{ "whole": { "dtype": "U8", "shape": [48], "data_offsets": [0, 48] },
            "cut": { "dtype": "U8", "shape": [1048576], "data_offsets": [48, 1048624] } }"#;
        let metadata = serde_json::from_str(header).unwrap();
        let shard = Shard { name: "short".to_owned(), bytes, metadata, data_start: 16 };
        assert_eq!(shard.bytes_of("whole", false).unwrap(), [7; 48]);
        let error = shard.bytes_of("cut", false).unwrap_err().to_string();
        assert!(error.contains("`cut` lies beyond the end"), "{error}");
    }
}
