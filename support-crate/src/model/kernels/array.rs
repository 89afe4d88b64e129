//! A matrix of numbers in main memory.

use std::borrow::Cow;
use std::ops::Range;

use half::bf16;
use quantlab_kernels::{Product, Scratch, Weights};

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::model::Precision;
use crate::model::weights::{BlockRows, UnreadTensor};
use crate::quant::restore_ggml;

/// The numbers of a matrix in a format that kernels multiply, row by row.
#[derive(Debug)]
pub(in crate::model) enum Array {
    Float32(Buffer<f32>),
    BFloat16(Buffer<bf16>),
    /// Of which single rows are wanted, restored one by one.
    Blocks(BlockRows),
}

impl Array {
    /// Reads a matrix: in place where the file is mapped, if it has the numbers in this format.
    ///
    /// # Errors
    /// As [`UnreadTensor::read`]; float16, which no kernel multiplies.
    pub fn read(tensor: UnreadTensor<'_>, dtype: Precision) -> Result<Self> {
        match dtype {
            Precision::Float32 => tensor.read_to_stay().map(Self::Float32),
            Precision::BFloat16 => tensor.read_to_stay().map(Self::BFloat16),
            Precision::Float16 => Err(Error::input("there are no kernels for float16 weights")),
        }
    }

    /// The numbers in float32.
    pub fn values(&self) -> Cow<'_, [f32]> {
        match self {
            Self::Float32(numbers) => Cow::Borrowed(numbers),
            Self::BFloat16(numbers) => numbers.iter().map(|number| number.to_f32()).collect(),
            Self::Blocks(rows) => {
                let [n, k] = rows.shape();
                let mut numbers = vec![0.0; n * k];
                let each = numbers.chunks_exact_mut(k).enumerate();
                each.for_each(|(row, out)| restore_ggml(rows.kind(), rows.row(row), out));
                Cow::Owned(numbers)
            }
        }
    }

    /// Appends some rows in float32.
    pub fn extend_with_rows(&self, rows: Range<usize>, columns: usize, to: &mut Vec<f32>) {
        let range = rows.start * columns..rows.end * columns;
        match self {
            Self::Float32(numbers) => to.extend_from_slice(&numbers[range]),
            Self::BFloat16(numbers) => to.extend(numbers[range].iter().map(|number| number.to_f32())),
            Self::Blocks(blocks) => rows.for_each(|row| {
                let start = to.len();
                to.resize(start + columns, 0.0);
                restore_ggml(blocks.kind(), blocks.row(row), &mut to[start..]);
            }),
        }
    }

    /// Adds a row, which is as long as `out`, to it.
    pub fn add_row(&self, row: usize, out: &mut [f32]) {
        let range = row * out.len()..(row + 1) * out.len();
        match self {
            Self::Float32(numbers) => add(&numbers[range], |&number| number, out),
            Self::BFloat16(numbers) => add(&numbers[range], |number| number.to_f32(), out),
            Self::Blocks(rows) => {
                let mut numbers = Scratch::<f32>::uninit(out.len());
                restore_ggml(rows.kind(), rows.row(row), &mut numbers);
                add(&numbers, |&number| number, out);
            }
        }
    }

    /// Bytes that are read from a mapped file.
    pub fn mapped_bytes(&self) -> usize {
        match self {
            Self::Float32(numbers) => numbers.mapped_bytes(),
            Self::BFloat16(numbers) => numbers.mapped_bytes(),
            Self::Blocks(rows) => rows.bytes().1,
        }
    }
}

impl Weights for Array {
    fn multiply(&self, product: Product<'_>) {
        match self {
            Self::Float32(numbers) => (&numbers[..]).multiply(product),
            Self::BFloat16(numbers) => (&numbers[..]).multiply(product),
            // A head has a matrix of its own, so that nobody comes here.
            Self::Blocks(_) => (&*self.values()).multiply(product),
        }
    }
}

fn add<T>(numbers: &[T], widen: impl Fn(&T) -> f32, out: &mut [f32]) {
    out.iter_mut().zip(numbers).for_each(|(out, number)| *out += widen(number));
}
