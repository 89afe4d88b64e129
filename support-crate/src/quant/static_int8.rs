//! Linear layers with int8 weights whose inputs are quantized by scales fixed beforehand.

use serde::Serialize;

use quantlab_kernels::{LARGEST, round_to_int8};

use super::float::{Float, absolute_maximum, check_finite, count_rows};
use super::int8::{Int8Rows, finite_or_zero, int8_matmul_reference};
use super::llm_int8::check_bias;
use crate::error::{Error, Result};

/// What an int8 input stands for: `value * scale`. Zero is always 0: the range is symmetric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum ActivationScale {
    /// One scale for all inputs of a layer.
    PerTensor(f32),
    /// One for each input feature.
    PerChannel(Vec<f32>),
}

impl ActivationScale {
    /// Quantizes inputs, rows of `columns` numbers: to the nearest int8, or, beyond the scale's range
    /// of 127 steps, to the last one. Where a scale is 0, everything becomes 0.
    ///
    /// # Errors
    /// Inputs that are not whole rows, scales that are not one for each column, an input that is NaN or
    /// infinite.
    pub fn quantize<T: Float>(&self, inputs: &[T], columns: usize) -> Result<Vec<i8>> {
        count_rows("inputs", inputs.len(), columns)?;
        self.check(columns)?;
        let factors = self.factors(columns);
        let mut values = vec![0; inputs.len()];
        let mut buffer = vec![0.0; columns];
        for (row, values) in inputs.chunks(columns).zip(values.chunks_mut(columns)) {
            let row = T::widen(row, &mut buffer);
            if absolute_maximum(row).is_none() {
                check_finite("input", inputs)?;
            }
            for ((value, input), factor) in values.iter_mut().zip(row).zip(&factors) {
                *value = round_to_int8((input * factor).clamp(-LARGEST, LARGEST));
            }
        }
        Ok(values)
    }

    /// The dequantized inputs, rows of `columns` numbers.
    ///
    /// # Errors
    /// Values that are not whole rows, scales that are not one for each column.
    pub fn dequantize(&self, values: &[i8], columns: usize) -> Result<Vec<f32>> {
        count_rows("int8 inputs", values.len(), columns)?;
        self.check(columns)?;
        let rows = values.chunks(columns);
        Ok(rows
            .flat_map(|row| row.iter().zip(self.of_columns(columns)).map(|(&v, scale)| f32::from(v) * scale))
            .collect())
    }

    /// The smallest and the largest scale.
    pub fn range(&self) -> (f32, f32) {
        match self {
            Self::PerTensor(scale) => (*scale, *scale),
            Self::PerChannel(scales) => {
                scales.iter().fold((f32::INFINITY, 0.0), |(low, high), &scale| (low.min(scale), high.max(scale)))
            }
        }
    }

    /// What each of `columns` inputs is multiplied by to become an int8.
    pub(crate) fn factors(&self, columns: usize) -> Vec<f32> {
        self.of_columns(columns).map(|scale| finite_or_zero(1.0 / scale)).collect()
    }

    /// The factor that the inputs' scales contribute to a product with int8 weights: a single number, because scales
    /// per channel are already in the weights.
    pub(crate) fn of_products(&self) -> f32 {
        match self {
            Self::PerTensor(scale) => *scale,
            Self::PerChannel(_) => 1.0,
        }
    }

    fn of_columns(&self, columns: usize) -> impl Iterator<Item = f32> {
        (0..columns).map(move |column| match self {
            Self::PerTensor(scale) => *scale,
            Self::PerChannel(scales) => scales[column],
        })
    }

    fn check(&self, columns: usize) -> Result<()> {
        let scales = match self {
            Self::PerTensor(scale) => std::slice::from_ref(scale),
            Self::PerChannel(scales) if scales.len() == columns => scales,
            Self::PerChannel(scales) => {
                return Err(Error::input(format!("{} scales per channel for {columns} channels", scales.len())));
            }
        };
        match scales.iter().position(|scale| !scale.is_finite() || *scale < 0.0) {
            None => Ok(()),
            Some(at) => Err(Error::input(format!("scale {at} of the inputs is {}", scales[at]))),
        }
    }
}

/// A linear layer of static int8: weights `[out_features, in_features]` with a scale for each row, and the
/// scales that its inputs are quantized by.
///
/// A separate scale for each input feature cannot be factored out of the sum of a product. So these scales are
/// multiplied into the weights before the weights are quantized, and the sum stays one of int8 products.
///
/// Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
/// Inference" (arXiv:1712.05877), section 2, with symmetric ranges; scales moved into the weights as in
/// SmoothQuant (Xiao et al. 2023, arXiv:2211.10438), section 4.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticInt8 {
    weight: Int8Rows,
    input_scale: ActivationScale,
}

impl StaticInt8 {
    /// Quantizes a matrix with rows of `columns` weights for inputs of these scales.
    ///
    /// # Errors
    /// Weights that are not whole rows, a weight that is NaN or infinite, scales that are negative, NaN,
    /// infinite, or not one for each column.
    pub fn quantize<T: Float>(weights: &[T], columns: usize, input_scale: ActivationScale) -> Result<Self> {
        count_rows("weights", weights.len(), columns)?;
        input_scale.check(columns)?;
        let weight = match &input_scale {
            ActivationScale::PerTensor(_) => Int8Rows::quantize(weights, columns)?,
            ActivationScale::PerChannel(scales) => {
                check_finite("weight", weights)?;
                let scaled =
                    weights.chunks(columns).flat_map(|row| row.iter().zip(scales).map(|(w, s)| w.to_f32() * s));
                Int8Rows::quantize(&scaled.collect::<Vec<f32>>(), columns)?
            }
        };
        Ok(Self { weight, input_scale })
    }

    /// The int8 weights; per channel, the inputs' scales are multiplied in.
    pub fn weight(&self) -> &Int8Rows {
        &self.weight
    }

    /// The int8 weights, without the inputs' scales.
    pub fn into_weight(self) -> Int8Rows {
        self.weight
    }

    /// What the inputs are quantized by.
    pub fn input_scale(&self) -> &ActivationScale {
        &self.input_scale
    }

    /// The factors that turn the int32 product of each row into a sum in the unit of the outputs.
    pub fn output_scales(&self) -> Vec<f32> {
        let input_scale = self.input_scale.of_products();
        self.weight.scb().iter().map(|scale| scale / LARGEST * input_scale).collect()
    }

    /// The layer's output, `[tokens, out_features]`, for inputs `[tokens, in_features]` and a bias
    /// `[out_features]`.
    ///
    /// A reference to test kernels against: it computes one number at a time.
    ///
    /// # Errors
    /// As [`ActivationScale::quantize`]; a bias whose length is not the number of rows of the weights; rows of more
    /// than 65,793 weights, whose products might not fit into int32.
    pub fn linear_reference<T: Float>(&self, inputs: &[T], bias: Option<&[T]>) -> Result<Vec<T>> {
        let (rows, columns) = (self.weight.rows(), self.weight.columns());
        let bias = check_bias(bias, rows)?;
        let values = self.input_scale.quantize(inputs, columns)?;
        let products = int8_matmul_reference(&values, self.weight.values(), columns)?;
        let scales = self.output_scales();
        let per_row = scales.iter().zip(&bias).cycle();
        let outputs = products.iter().zip(per_row);
        Ok(outputs.map(|(&product, (scale, bias))| T::from_f32(product as f32 * scale + bias)).collect())
    }
}

#[cfg(test)]
#[path = "static_int8_tests.rs"]
mod tests;
