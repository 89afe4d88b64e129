//! Tensors to a safetensors file.
//!
//! Source: the format's description in huggingface/safetensors `README.md`, and `prepare` in its `tensor.rs`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::progress::Progress;

/// A tensor to be written. Its bytes are made when their turn comes, and dropped before the next one's.
pub(in crate::model) struct StateTensor<'a> {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    /// The numbers one after the other, little-endian.
    pub bytes: Box<dyn FnOnce() -> Result<Cow<'a, [u8]>> + 'a>,
}

impl<'a> StateTensor<'a> {
    pub fn new(name: String, dtype: Dtype, shape: &[usize], bytes: impl Into<Cow<'a, [u8]>>) -> Self {
        let bytes = bytes.into();
        Self { name, dtype, shape: shape.to_vec(), bytes: Box::new(|| Ok(bytes)) }
    }

    /// A tensor whose bytes are made when it is written.
    pub fn later(name: String, dtype: Dtype, shape: &[usize], bytes: impl FnOnce() -> Vec<u8> + 'a) -> Self {
        Self { name, dtype, shape: shape.to_vec(), bytes: Box::new(|| Ok(bytes().into())) }
    }

    fn info(&self, start: usize) -> TensorInfo {
        let bytes = self.shape.iter().product::<usize>() * self.dtype.bitsize() / 8;
        TensorInfo { dtype: self.dtype, shape: self.shape.clone(), data_offsets: (start, start + bytes) }
    }
}

/// Writes the file, tensor by tensor, and returns their names and shapes.
///
/// # Errors
/// A file that cannot be written; what a tensor's bytes report.
pub(in crate::model) fn write(path: &Path, mut tensors: Vec<StateTensor<'_>>) -> Result<Vec<(String, Vec<usize>)>> {
    let cannot = || format!("cannot write {}", path.display());
    // In the order of the format's library, so that the same tensors give the same file.
    tensors.sort_by(|a, b| b.dtype.cmp(&a.dtype).then_with(|| a.name.cmp(&b.name)));
    let mut end = 0;
    let mut infos = Vec::with_capacity(tensors.len());
    for tensor in &tensors {
        let info = tensor.info(end);
        end = info.data_offsets.1;
        infos.push((tensor.name.clone(), info));
    }
    // transformers refuses a file that does not say so.
    let format = HashMap::from([("format".to_owned(), "pt".to_owned())]);
    let mut header = serde_json::to_vec(&Metadata::new(Some(format), infos.clone())?)?;
    header.resize(header.len().next_multiple_of(size_of::<u64>()), b' ');
    let mut file = BufWriter::new(File::create(path).context(cannot)?);
    file.write_all(&(header.len() as u64).to_le_bytes()).context(cannot)?;
    file.write_all(&header).context(cannot)?;
    let written = infos.iter().map(|(name, info)| (name.clone(), info.shape.clone())).collect();
    let mut progress = Progress::new("saving", tensors.len(), "tensors");
    for (tensor, (name, info)) in tensors.into_iter().zip(infos) {
        interrupt::check()?;
        let bytes = (tensor.bytes)().context(|| format!("tensor `{name}`"))?;
        let (start, end) = info.data_offsets;
        if bytes.len() != end - start {
            return Err(Error::system(format!("tensor `{name}`: {} bytes for {:?}", bytes.len(), info.shape)));
        }
        file.write_all(&bytes).context(cannot)?;
        progress.advance(1);
    }
    // A file that is renamed is whole, even if the power fails.
    file.into_inner().map_err(std::io::IntoInnerError::into_error).context(cannot)?.sync_all().context(cannot)?;
    Ok(written)
}
