//! What a tensor library must be able to do.

use std::fmt;
use std::ops::Range;

use crate::error::Result;
use crate::model::weights::UnreadTensor;
use crate::model::{Activation, Precision};

/// A matrix (n, k) in blocks of 4-bit numbers that run over its rows.
#[derive(Debug)]
pub(in crate::model) struct FourBitTensors<T> {
    /// Two numbers a byte, the last block filled up: (blocks * blocksize / 2), uint8.
    pub packed: T,
    /// (blocks, 1), float32
    pub absmax: T,
    /// What a code of 0 stands for, where that is not 0: (blocks, 1), float32.
    pub minimum: Option<T>,
    /// The two numbers of each byte, as parts of `absmax`: (256, 2), float32. Looking up a byte gives both in their
    /// order; looking up half bytes would give two results, to be interleaved.
    pub pairs: T,
    /// Which input each column is multiplied with, where they are in another order: (k).
    pub columns: Option<T>,
    pub blocks: usize,
    pub blocksize: usize,
    pub n: usize,
    pub k: usize,
}

/// A matrix (n, k) of 8-bit numbers with a scale for each row.
#[derive(Debug)]
pub(in crate::model) struct Int8Tensors<T> {
    /// The numbers, plus 128, because candle has no int8: (n, k), uint8.
    pub shifted: T,
    /// (1, n), float32
    pub scb: T,
    /// Columns in which any input reaches this are multiplied as they are; 0 for none.
    pub threshold: f32,
}

/// The operations that a transformer is made of, as a tensor library has them.
///
/// Tensors are in the precision of the computation, except for matrices of weights.
pub(in crate::model) trait Operations: Send + Sync {
    type Tensor: fmt::Debug + Send + Sync + 'static;

    /// Reads a tensor of weights, in the precision of the model or of the computation.
    fn read(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<Self::Tensor>;
    /// A tensor of uint8.
    fn bytes(&self, values: &[u8], shape: &[usize]) -> Result<Self::Tensor>;
    /// The content of a tensor of uint8, in main memory.
    fn bytes_of(&self, x: &Self::Tensor) -> Result<Vec<u8>>;
    /// Numbers in float32 on the device, whatever the precision of the computation.
    fn float32(&self, values: &[f32], shape: &[usize]) -> Result<Self::Tensor>;

    /// Indices on the device.
    fn indices(&self, values: &[u32]) -> Result<Self::Tensor>;

    /// Waits until everything that was started has been computed.
    fn synchronize(&self) -> Result<()>;
    fn zeros(&self, shape: &[usize]) -> Result<Self::Tensor>;
    /// Numbers on the device, in the precision of the computation.
    fn numbers(&self, values: &[f32], shape: &[usize]) -> Result<Self::Tensor>;
    /// All numbers of a tensor, in main memory.
    fn values(&self, x: &Self::Tensor) -> Result<Vec<f32>>;
    /// Rows of the first dimension, in the precision of the computation.
    fn rows(&self, table: &Self::Tensor, rows: &[u32]) -> Result<Self::Tensor>;
    /// Columns of a matrix, one after the other.(M, k), in the order of the indices.
    fn columns(&self, x: &Self::Tensor, indices: &Self::Tensor) -> Result<Self::Tensor>;
    fn add(&self, x: &Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor>;
    fn multiply(&self, x: &Self::Tensor, y: &Self::Tensor) -> Result<Self::Tensor>;
    fn scale(&self, x: &Self::Tensor, factor: f64) -> Result<Self::Tensor>;
    /// Columns of a matrix, one after the other.
    fn column_range(&self, x: &Self::Tensor, columns: Range<usize>) -> Result<Self::Tensor>;
    /// The columns of matrices of equal height as those of one.
    fn side_by_side(&self, parts: &[Self::Tensor]) -> Result<Self::Tensor>;
    /// `x` (M, in), `weight` (out, in), `bias` (out) to (M, out).
    fn linear(&self, x: &Self::Tensor, weight: &Self::Tensor, bias: Option<&Self::Tensor>) -> Result<Self::Tensor>;
    /// The matrix (n, k), in the precision of the computation: each number times the `absmax` of its block, in float32.
    fn dequantize_4bit(&self, weight: &FourBitTensors<Self::Tensor>) -> Result<Self::Tensor>;
    /// LLM.int8(): `x` (M, in), rounded to 8 bits row by row, `bias` (out) to (M, out).
    ///
    /// The products of bytes are added up in float32, which is exact as long as sums are below 2^24: no library
    /// multiplies int8 on every device and in every shape.
    fn linear_int8(
        &self,
        x: &Self::Tensor,
        weight: &Int8Tensors<Self::Tensor>,
        bias: Option<&Self::Tensor>,
    ) -> Result<Self::Tensor>;
    fn layer_norm(
        &self,
        x: &Self::Tensor,
        scale: &Self::Tensor,
        shift: Option<&Self::Tensor>,
        epsilon: f64,
    ) -> Result<Self::Tensor>;
    /// By `scale + offset`.
    fn rms_norm(&self, x: &Self::Tensor, scale: &Self::Tensor, offset: f64, epsilon: f64) -> Result<Self::Tensor>;
    fn activate(&self, x: &Self::Tensor, function: Activation) -> Result<Self::Tensor>;
    /// `count` heads of width D of each row of `x` (M, ...), the first of them at column `start`, as
    /// (B, count, T, D).
    fn heads(&self, x: &Self::Tensor, start: usize, shape: (usize, usize, usize, usize)) -> Result<Self::Tensor>;
    /// The pairs (i, i + R/2) of the first R numbers of heads `x` (B, heads, T, D) turned. `cos` (B, 1, T, R) has the
    /// cosines twice, `sin` the negative sines and then the sines: the numbers times `cos`, and those with halves swapped
    /// times `sin`, are added.
    fn rotate(&self, x: &Self::Tensor, cos: &Self::Tensor, sin: &Self::Tensor) -> Result<Self::Tensor>;
    /// Writes `new` (B, J, T, D) into `cache` at `past_len`, and returns what the cache holds then.
    fn append(&self, cache: &mut Self::Tensor, new: &Self::Tensor, past_len: usize) -> Result<Self::Tensor>;
    /// `q` (B, H, T, D), `k` and `v` (B, J, S, D), `mask` (B or 1, 1, T, S), if there is one, to be added to the scores,
    /// which are multiplied by `scale` and capped first; result (M, H D).
    fn attention(
        &self,
        q: &Self::Tensor,
        k: &Self::Tensor,
        v: &Self::Tensor,
        mask: Option<&Self::Tensor>,
        scale: f32,
        soft_cap: Option<f32>,
    ) -> Result<Self::Tensor>;
}
