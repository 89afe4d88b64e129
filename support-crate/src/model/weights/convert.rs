//! Numbers as a file has them to numbers as they are computed with.

use std::sync::atomic::{AtomicBool, Ordering};

use half::{bf16, f16};
use quantlab_kernels::thread_scope;

use crate::buffer::Plain;
use crate::error::{Error, Result};
use crate::quant::Float;

/// A number as a file has it: little-endian bytes.
pub(in crate::model) trait InFile: Copy {
    const BYTES: usize;
    fn from_bytes(bytes: &[u8]) -> Self;
    fn widen(self) -> f32;
}

/// A number in a format that is computed with: float32, bfloat16 or float16.
pub(in crate::model) trait Wanted: Float + InFile + Plain + Default + Send + Sync {}
impl<T: Float + InFile + Plain + Default + Send + Sync> Wanted for T {}

macro_rules! in_file {
    ($type:ty, $bytes:literal, |$value:ident| $widen:expr) => {
        impl InFile for $type {
            const BYTES: usize = $bytes;
            #[inline(always)]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; $bytes];
                own.copy_from_slice(bytes);
                <$type>::from_le_bytes(own)
            }
            #[inline(always)]
            fn widen(self) -> f32 {
                let $value = self;
                $widen
            }
        }
    };
}

in_file!(f32, 4, |value| value);
in_file!(f64, 8, |value| value as f32);
in_file!(f16, 2, |value| value.to_f32());
// A bfloat16 is the upper half of a float32.
in_file!(bf16, 2, |value| f32::from_bits(u32::from(value.to_bits()) << 16));

/// Whether no number is a NaN or an infinity.
pub(super) fn all_finite<T: Wanted>(numbers: &[T]) -> bool {
    let finite = AtomicBool::new(true);
    thread_scope().split(numbers.len(), 1, 4, &|part| {
        let all_finite = numbers[part].iter().fold(true, |finite, number| finite & number.widen().is_finite());
        finite.fetch_and(all_finite, Ordering::Relaxed);
    });
    finite.into_inner()
}

/// Reads as many numbers of a tensor as `out` has room for, from `start` on; a matrix of that many `columns` is
/// transposed on the way, and whole rows of the transpose are read. Returns whether all numbers are finite.
pub(super) fn read<S: InFile, W: Wanted>(
    bytes: &[u8],
    columns: Option<usize>,
    start: usize,
    out: &mut [W],
) -> Result<bool> {
    if out.is_empty() {
        return Ok(true);
    }
    let wanted = start * S::BYTES..(start + out.len()) * S::BYTES;
    let Some(in_order) = bytes.get(wanted) else {
        let end = start + out.len();
        return Err(Error::system(format!("numbers {start} to {end} of {} bytes, {} each", bytes.len(), S::BYTES)));
    };
    let finite = AtomicBool::new(true);
    match columns {
        None => thread_scope().split_mut(out, 1, 8, &|first, part| {
            let bytes = &in_order[first * S::BYTES..(first + part.len()) * S::BYTES];
            let mut all_finite = true;
            for (out, bytes) in part.iter_mut().zip(bytes.chunks_exact(S::BYTES)) {
                let value = S::from_bytes(bytes).widen();
                all_finite &= value.is_finite();
                *out = W::from_f32(value);
            }
            finite.fetch_and(all_finite, Ordering::Relaxed);
        }),
        Some(columns) => {
            let rows = bytes.len() / (S::BYTES * columns);
            debug_assert!(start.is_multiple_of(rows) && out.len().is_multiple_of(rows), "whole rows of the transpose");
            thread_scope().split_mut(out, rows, 16 * rows, &|first, part| {
                finite.fetch_and(transposed::<S, W>(bytes, columns, start / rows + first, part), Ordering::Relaxed);
            });
        }
    }
    Ok(finite.into_inner())
}

/// Columns and rows of a square that is transposed at once: whole cache lines of both sides.
const SQUARE: usize = 32;

/// Rows `first..` of the transpose, as many as `out` holds, from a matrix of `columns` columns.
fn transposed<S: InFile, W: Wanted>(bytes: &[u8], columns: usize, first: usize, out: &mut [W]) -> bool {
    let rows = bytes.len() / (S::BYTES * columns);
    let mut all_finite = true;
    for (column, out) in (first..).step_by(SQUARE).zip(out.chunks_mut(SQUARE * rows)) {
        let width = out.len() / rows;
        for row in (0..rows).step_by(SQUARE) {
            for r in row..rows.min(row + SQUARE) {
                let start = (r * columns + column) * S::BYTES;
                let line = bytes[start..start + width * S::BYTES].chunks_exact(S::BYTES);
                for (c, bytes) in line.enumerate() {
                    let value = S::from_bytes(bytes).widen();
                    all_finite &= value.is_finite();
                    out[c * rows + r] = W::from_f32(value);
                }
            }
        }
    }
    all_finite
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_transpose_is_one_whatever_its_shape(
            rows in 1..100_usize,
            columns in 1..200_usize,
            (first, count) in (0..200_usize, 1..200_usize),
        ) {
            let values: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            // Some rows of the transpose, and as many numbers of the matrix as it is.
            let first = first % columns;
            let (start, count) = (first * rows, count.min(columns - first) * rows);
            let mut out = vec![0.0_f32; count];
            prop_assert!(read::<f32, f32>(&bytes, None, start, &mut out).unwrap());
            prop_assert_eq!(&out, &values[start..start + count]);
            prop_assert!(read::<f32, f32>(&bytes, Some(columns), start, &mut out).unwrap());
            for (i, &value) in (start..).zip(&out) {
                prop_assert_eq!(value, values[i % rows * columns + i / rows]);
            }
        }
    }

    #[test]
    fn formats_are_converted_to_the_nearest() {
        let values = [1.0_f32, -2.5, 3.25, 65_504.0];
        let bytes: Vec<u8> = values.iter().flat_map(|value| f64::from(*value).to_le_bytes()).collect();
        let mut narrow = [bf16::ZERO; 4];
        assert!(read::<f64, _>(&bytes, None, 0, &mut narrow).unwrap());
        assert_eq!(narrow, values.map(bf16::from_f32));
        let bytes: Vec<u8> = narrow.iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut wide = [0.0_f32; 4];
        assert!(read::<bf16, _>(&bytes, None, 0, &mut wide).unwrap());
        assert_eq!(wide, narrow.map(bf16::to_f32));
    }

    #[test]
    fn what_is_not_finite_is_found() {
        for (value, at) in [(f32::NAN, 0), (f32::INFINITY, 5_000), (f32::NEG_INFINITY, 99_999)] {
            let mut values = vec![1.0_f32; 100_000];
            values[at] = value;
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            assert!(!all_finite(&values));
            for columns in [None, Some(100)] {
                let mut out = vec![0.0_f32; values.len()];
                assert!(!read::<f32, f32>(&bytes, columns, 0, &mut out).unwrap());
            }
        }
    }
}
