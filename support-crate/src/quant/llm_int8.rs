//! Quantizes inputs to int8 while computing: LLM.int8() keeps large ones apart, dynamic int8 does not.

use quantlab_kernels::PER_PRODUCT;

use super::float::{Float, absolute_maximum, check_finite, count_rows};
use super::int8::{Int8Rows, int8_matmul_reference, quantize_row};
use crate::error::{Error, Result};

/// Inputs of a linear layer as int8, `[tokens, columns]`, with the largest magnitude of each token: an input
/// is `value * scale / 127`.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Tokens {
    /// The int8, token after token; 0 throughout the outlier columns.
    pub values: Vec<i8>,
    /// The largest magnitude of each token, outliers left out.
    pub scales: Vec<f32>,
    /// Columns in which some token has an outlier, ascending: to be multiplied in higher precision.
    pub outlier_columns: Vec<usize>,
}

impl Int8Tokens {
    /// Quantizes tokens of `columns` inputs, each by its own largest magnitude.
    ///
    /// Inputs of magnitude `threshold` or more (`llm_int8_threshold`, usually 6) are outliers. With a threshold
    /// of 0 there are none: dynamic int8.
    ///
    /// A column is an outlier column for all tokens of a call. In bitsandbytes, a call is a whole batch, so that a
    /// sequence can change the result of another; to avoid this, make a call for each token.
    ///
    /// Source: LLM.int8() (Dettmers et al. 2022, arXiv:2208.07339), section 3.2; `int8_vectorwise_quant` in
    /// bitsandbytes `backends/default/ops.py`, which rounds to float16 first.
    ///
    /// # Errors
    /// Inputs that are not whole tokens, one that is NaN or infinite, a threshold that is negative or NaN.
    pub fn quantize<T: Float>(inputs: &[T], columns: usize, threshold: f32) -> Result<Self> {
        let tokens = count_rows("inputs", inputs.len(), columns)?;
        check_threshold(threshold)?;
        let is_outlier = |input: f32| threshold > 0.0 && input.abs() >= threshold;
        let mut has_outlier = vec![false; columns];
        let (mut values, mut scales) = (vec![0; inputs.len()], Vec::with_capacity(tokens));
        let mut row = vec![0.0; columns];
        let mut buffer = vec![0.0; columns];
        for (token, values) in inputs.chunks(columns).zip(values.chunks_mut(columns)) {
            let wide = T::widen(token, &mut buffer);
            if absolute_maximum(wide).is_none() {
                check_finite("input", inputs)?;
            }
            for ((input, &wide), has_outlier) in row.iter_mut().zip(wide).zip(&mut has_outlier) {
                *has_outlier |= is_outlier(wide);
                *input = if is_outlier(wide) { 0.0 } else { wide };
            }
            let largest = absolute_maximum(&row).unwrap_or_default();
            quantize_row(&row, largest, values);
            scales.push(largest);
        }
        let outlier_columns: Vec<usize> = (0..columns).filter(|&column| has_outlier[column]).collect();
        for values in values.chunks_mut(columns) {
            outlier_columns.iter().for_each(|&column| values[column] = 0);
        }
        Ok(Self { values, scales, outlier_columns })
    }
}

/// # Errors
/// A threshold that is negative or NaN.
pub(crate) fn check_threshold(threshold: f32) -> Result<()> {
    if threshold.is_nan() || threshold < 0.0 {
        return Err(Error::input(format!("the outlier threshold cannot be {threshold}"))
            .hint("use 0 or more: 6 is usual, and 0 quantizes all inputs (llm_int8_threshold)"));
    }
    Ok(())
}

/// A linear layer as LLM.int8() computes it: `inputs`, `[tokens, in_features]`, times the transposed weights,
/// plus `bias`, `[out_features]`; the result is `[tokens, out_features]`.
///
/// Columns without outliers are multiplied as int8, the others in the inputs' format, with weights that are
/// dequantized. With a `threshold` of 0, all are int8: dynamic int8.
///
/// A reference to test kernels against: it computes one number at a time, and rounds where bitsandbytes rounds.
///
/// Source: `int8_mixed_scaled_mm` and `int8_mm_dequant` in bitsandbytes `backends/default/ops.py`.
///
/// # Errors
/// As [`Int8Tokens::quantize`]; a bias whose length is not the number of rows of the weights; rows of more than 65,793
/// weights, whose products might not fit into int32.
pub fn llm_int8_linear_reference<T: Float>(
    inputs: &[T],
    weight: &Int8Rows,
    bias: Option<&[T]>,
    threshold: f32,
) -> Result<Vec<T>> {
    let (rows, columns) = (weight.rows(), weight.columns());
    let bias = check_bias(bias, rows)?;
    let tokens = Int8Tokens::quantize(inputs, columns, threshold)?;
    let products = int8_matmul_reference(&tokens.values, weight.values(), columns)?;
    let mut out = Vec::with_capacity(products.len());
    for (products, scale) in products.chunks(rows).zip(&tokens.scales) {
        for ((&product, row_scale), bias) in products.iter().zip(weight.scb()).zip(bias.iter()) {
            out.push(T::from_f32(product as f32 * (scale * row_scale) * PER_PRODUCT + bias));
        }
    }
    if tokens.outlier_columns.is_empty() {
        return Ok(out);
    }
    let weight_columns: Vec<Vec<f32>> =
        tokens.outlier_columns.iter().map(|&column| weight_column::<T>(weight, column)).collect();
    for (inputs, out) in inputs.chunks(columns).zip(out.chunks_mut(rows)) {
        for (row, out) in out.iter_mut().enumerate() {
            let outliers = tokens.outlier_columns.iter().zip(&weight_columns);
            let sum: f32 = outliers.map(|(&column, weights)| inputs[column].to_f32() * weights[row]).sum();
            *out = T::from_f32(out.to_f32() + sum);
        }
    }
    Ok(out)
}

fn weight_column<T: Float>(weight: &Int8Rows, column: usize) -> Vec<f32> {
    weight.dequantize_column(column).map(|weight| T::from_f32(weight).to_f32()).collect()
}

/// The bias in float32, or zeros where there is none.
fn check_bias<T: Float>(bias: Option<&[T]>, rows: usize) -> Result<Vec<f32>> {
    match bias {
        None => Ok(vec![0.0; rows]),
        Some(bias) if bias.len() == rows => Ok(bias.iter().map(|bias| bias.to_f32()).collect()),
        Some(bias) => Err(Error::input(format!("a bias of {} numbers for weights of {rows} rows", bias.len()))),
    }
}

#[cfg(test)]
#[path = "llm_int8_tests.rs"]
mod tests;
