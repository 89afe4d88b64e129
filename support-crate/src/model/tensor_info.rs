//! What a model keeps in memory, tensor by tensor.

use serde::Serialize;

/// A tensor of a loaded model, as PyTorch lists it: the parameters of `state_dict()`, and what
/// `named_buffers()` adds. Scales of quantized weights are in neither of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TensorInfo {
    /// As the model's files call it.
    pub name: String,
    /// What it is for.
    pub kind: TensorKind,
    /// The shape that it represents; `[out_features, in_features]` for a matrix of weights.
    pub shape: Vec<usize>,
    /// Elements stored: as many as `shape` says, or half as many where a byte holds two codes of 4 bits; of blocks of a GGUF
    /// file, their bytes.
    pub numel: usize,
    /// Bytes of each element.
    pub element_size: usize,
    /// The tensor whose memory this is, if it has none of its own: GPT-2's head is its token embedding.
    pub tied_to: Option<String>,
}

/// What PyTorch takes a tensor for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TensorKind {
    /// Learned in training.
    Parameter,
    /// Computed, such as a causal mask. See [`ModelInfo::buffer_bytes`](super::ModelInfo::buffer_bytes).
    Buffer,
}

impl TensorInfo {
    /// A tensor that keeps every number of its shape, in memory of its own.
    pub fn plain(name: impl Into<String>, kind: TensorKind, shape: &[usize], element_size: usize) -> Self {
        let numel = shape.iter().product();
        Self { name: name.into(), kind, shape: shape.to_vec(), numel, element_size, tied_to: None }
    }
}
