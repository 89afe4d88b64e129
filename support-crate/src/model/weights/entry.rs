//! How a file holds a tensor, whatever the container.

use std::ops::Range;

use safetensors::Dtype;

use crate::model::Precision;
use crate::source::GgmlType;

/// What a file says of a tensor.
pub(super) struct Entry {
    pub numbers: Numbers,
    pub shape: Vec<usize>,
    /// Its bytes in the file.
    pub range: Range<usize>,
}

impl Entry {
    /// Whether its numbers lie there one after the other, in this format.
    pub fn is_plain(&self, format: Precision) -> bool {
        self.numbers == Numbers::Plain(format.to_safetensors())
    }
}

/// How a file has the numbers of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// One after the other.
    Plain(Dtype),
    /// In the blocks of a GGUF file. Where heads have `paired` rows each, these alternate between a head's halves.
    Blocks { kind: GgmlType, paired: Option<usize> },
    /// As a GGUF file has them, but each is more by 1 there.
    PlusOne(GgmlType),
}
