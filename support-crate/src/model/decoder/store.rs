//! Where an engine keeps a decoder's weights, and in what form.

use std::borrow::Cow;

use crate::error::Result;
use crate::model::Precision;
use crate::model::engine_model::{RowReader, rows_of};
use crate::model::quantized::{QuantizedWeight, StateBytes};
use crate::model::weights::{BlockRows, StateTensor, UnreadTensor};

/// An engine's memory on a device: for kernels main memory, for a tensor library its tensors.
pub(in crate::model) trait Store: Send + Sync {
    /// A matrix in the precision of the model.
    type Tensor: Send + Sync;
    /// A bias, or the numbers of a norm, in the precision of the computation.
    type Vector: Send + Sync;
    /// A matrix in a quantized format.
    type Quantized: Send + Sync;

    /// Reads a matrix in `dtype`, the precision of the model.
    ///
    /// # Errors
    /// As [`UnreadTensor::read`]; no room for it.
    fn matrix(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<Self::Tensor>;

    /// Reads a vector in `dtype`, the precision of the computation.
    ///
    /// # Errors
    /// As [`matrix`](Self::matrix).
    fn vector(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<Self::Vector>;

    /// Keeps a table of which single rows are wanted in the blocks of a GGUF file; `None` where all matrices in blocks
    /// are to be restored.
    fn keep_blocks(&self) -> Option<fn(BlockRows) -> Self::Tensor> {
        None
    }

    /// Takes a quantized matrix, and says what memory it has besides the codes.
    ///
    /// # Errors
    /// No room for it; a format that the engine does not compute.
    fn quantized(&self, weight: Box<dyn QuantizedWeight>) -> Result<(Self::Quantized, StateBytes)>;

    /// How many bytes of a matrix are read from a mapped file.
    fn mapped_bytes(_matrix: &Self::Tensor) -> usize {
        0
    }

    /// The numbers of a matrix, row by row.
    ///
    /// # Errors
    /// What the engine reports.
    fn matrix_values<'a>(&self, matrix: &'a Self::Tensor) -> Result<Cow<'a, [f32]>>;

    /// A reader of some rows of a matrix at a time, which has so many columns.
    ///
    /// # Errors
    /// As [`matrix_values`](Self::matrix_values).
    fn matrix_rows<'a>(&self, matrix: &'a Self::Tensor, columns: usize) -> Result<RowReader<'a>> {
        self.matrix_values(matrix).map(|values| rows_of(values, columns))
    }

    /// # Errors
    /// What the engine reports.
    fn vector_values<'a>(&self, vector: &'a Self::Vector) -> Result<Cow<'a, [f32]>>;

    /// The tensors of a quantized matrix as a checkpoint has them.
    ///
    /// # Errors
    /// A format that no checkpoint has.
    fn state_dict<'a>(&'a self, matrix: &'a Self::Quantized, module: &str) -> Result<Vec<StateTensor<'a>>>;
}
