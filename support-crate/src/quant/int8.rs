//! Weights of 8 bits, with a scale for each row, and their products.

use quantlab_kernels::{PER_STEP, int8_factor, round_to_int8};

use super::float::{Float, absolute_maximum, check_finite, count_rows};
use crate::buffer::Buffer;
use crate::error::{Error, Result};

/// With longer rows, a sum of products might not fit into int32: some instructions take one factor as unsigned, shifted
/// by 128.
const MAX_COLUMNS: usize = i32::MAX as usize / (255 * 128);

/// A matrix of int8 weights, `[out_features, in_features]`, with the largest magnitude of each row:
/// a weight is `value * scb / 127`.
///
/// Source: LLM.int8() (Dettmers et al. 2022, arXiv:2208.07339), section 3; `Linear8bitLt` of bitsandbytes,
/// where checkpoints call the scales `SCB`.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Rows {
    values: Buffer<i8>,
    scb: Vec<f32>,
    columns: usize,
}

impl Int8Rows {
    /// Quantizes a matrix with rows of `columns` weights, on the caller's thread.
    ///
    /// # Errors
    /// As [`quantize_rows_int8`].
    pub fn quantize<T: Float>(weights: &[T], columns: usize) -> Result<Self> {
        let rows = count_rows("weights", weights.len(), columns)?;
        let mut values = vec![0; weights.len()];
        let mut scb = vec![0.0; rows];
        quantize_rows_int8(weights, columns, &mut values, &mut scb)?;
        Ok(Self { values: Buffer::Owned(values), scb, columns })
    }

    /// Puts together what a file holds, or what several threads quantized: `scb` has one scale for each row
    /// of `columns` values.
    ///
    /// # Errors
    /// Values that are not whole rows, rows of more than 65,793, scales that are missing, too few or too many, a scale that
    /// is negative, NaN or infinite.
    pub fn new(values: Vec<i8>, scb: Vec<f32>, columns: usize) -> Result<Self> {
        Self::with_values(Buffer::Owned(values), scb, columns)
    }

    /// As [`new`](Self::new), wherever the values lie.
    pub(crate) fn with_values(values: Buffer<i8>, scb: Vec<f32>, columns: usize) -> Result<Self> {
        let rows = count_rows("int8 weights", values.len(), columns)?;
        check_columns(columns)?;
        if scb.is_empty() {
            return Err(Error::format(format!("the int8 weights have no scales (SCB) for their {rows} rows")));
        }
        if scb.len() != rows {
            return Err(Error::format(format!("{} scales (SCB) for int8 weights of {rows} rows", scb.len())));
        }
        check_finite("the scale (SCB) of row", &scb)?;
        if let Some(row) = scb.iter().position(|&scale| scale < 0.0) {
            return Err(Error::format(format!("the scale (SCB) of row {row} is {}", scb[row])));
        }
        Ok(Self { values, scb, columns })
    }

    /// The dequantized weights, row after row, computed in float32 and rounded to their format.
    pub fn dequantize<T: Float>(&self) -> Vec<T> {
        let rows = self.values.chunks(self.columns).zip(&self.scb);
        rows.flat_map(|(row, scale)| row.iter().map(move |&value| T::from_f32(dequantize(value, *scale)))).collect()
    }

    /// The weights of `column`, one for each row.
    pub(super) fn dequantize_column(&self, column: usize) -> impl Iterator<Item = f32> {
        let values = self.values[column..].iter().step_by(self.columns);
        values.zip(&self.scb).map(|(&value, &scale)| dequantize(value, scale))
    }

    /// The int8 weights, row after row.
    pub fn values(&self) -> &[i8] {
        &self.values
    }

    /// Forgets the weights, and keeps their scales.
    pub(crate) fn forget_values(&mut self) {
        self.values = Buffer::Owned(Vec::new());
    }

    /// The largest magnitude of each row.
    pub fn scb(&self) -> &[f32] {
        &self.scb
    }

    /// How many rows (`out_features`).
    pub fn rows(&self) -> usize {
        self.scb.len()
    }

    /// How many weights a row has (`in_features`).
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of weights and scales.
    pub fn size_in_bytes(&self) -> usize {
        self.values.len() + size_of_val(self.scb.as_slice())
    }
}

fn check_columns(columns: usize) -> Result<()> {
    if columns > MAX_COLUMNS {
        return Err(Error::input(format!(
            "int8 rows of {columns} numbers are too long: sums of products fit into int32 up to {MAX_COLUMNS}"
        )));
    }
    Ok(())
}

/// Source: `int8_vectorwise_dequant` in bitsandbytes `functional.py`.
fn dequantize(value: i8, scale: f32) -> f32 {
    f32::from(value) * scale * PER_STEP
}

/// Quantizes rows of `columns` weights to int8, each by its own largest magnitude, which becomes 127.
///
/// `values` receives as many numbers as there are weights, `scb` the largest magnitude of each row. Ties round to even.
/// A row whose largest magnitude is below 127 / `f32::MAX` (3.7e-37) becomes zeros.
///
/// Rows do not depend on each other: several threads may each quantize some.
///
/// Source: `int8_vectorwise_quant` in bitsandbytes `backends/default/ops.py`. bitsandbytes rounds all weights
/// to float16 first: for the same int8, round what is not float16 already.
///
/// # Errors
/// Lengths that do not match, rows of more than 65,793, whose sums of products might not fit into int32, a weight that is NaN
/// or infinite. What was written before the error stays.
pub fn quantize_rows_int8<T: Float>(weights: &[T], columns: usize, values: &mut [i8], scb: &mut [f32]) -> Result<()> {
    let rows = count_rows("weights", weights.len(), columns)?;
    check_columns(columns)?;
    if (values.len(), scb.len()) != (weights.len(), rows) {
        return Err(Error::input(format!(
            "there is room for {} int8 values and {} scales (SCB), for {} weights in {rows} rows",
            values.len(),
            scb.len(),
            weights.len()
        )));
    }
    let mut buffer = vec![0.0; columns];
    for ((row, values), scale) in weights.chunks(columns).zip(values.chunks_mut(columns)).zip(scb) {
        let row = T::widen(row, &mut buffer);
        let Some(largest) = absolute_maximum(row) else {
            return check_finite("weight", weights);
        };
        *scale = largest;
        quantize_row(row, largest, values);
    }
    Ok(())
}

/// Quantizes a row to int8 so that `largest`, which is at least its largest magnitude, would become 127.
pub(super) fn quantize_row(row: &[f32], largest: f32, values: &mut [i8]) {
    let factor = int8_factor(largest);
    values.iter_mut().zip(row).for_each(|(value, number)| *value = round_to_int8(number * factor));
}

/// The product of int8 rows with int8 rows: `out[i, j]` is the sum of `inputs[i, k] * weights[j, k]`, exact.
///
/// `inputs` is `[tokens, columns]`, `weights` `[rows, columns]`, the result `[tokens, rows]`.
///
/// A reference to test kernels against: it computes one number at a time.
///
/// # Errors
/// Numbers that are not whole rows; rows of more than 65,793, whose sums might not fit into int32.
pub fn int8_matmul_reference(inputs: &[i8], weights: &[i8], columns: usize) -> Result<Vec<i32>> {
    count_rows("inputs", inputs.len(), columns)?;
    count_rows("int8 weights", weights.len(), columns)?;
    check_columns(columns)?;
    let dot = |a: &[i8], b: &[i8]| a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
    let products = inputs.chunks(columns).flat_map(|input| weights.chunks(columns).map(move |row| dot(input, row)));
    Ok(products.collect())
}

#[cfg(test)]
#[path = "int8_tests.rs"]
mod tests;
