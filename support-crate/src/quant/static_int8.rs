//! Linear layers with int8 weights whose inputs are quantized by scales fixed beforehand.

use serde::Serialize;

use super::float::{check_finite, count_rows};
use super::int8::quantize_rows_int8;
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
    /// Quantizes weights, rows of `columns` numbers for inputs of these scales, to `values` with the largest magnitude of
    /// each row, `scb`: see [`quantize_rows_int8`].
    ///
    /// A separate scale for each input feature cannot be factored out of the sum of a product. So these scales are
    /// multiplied into the weights before the weights are quantized, and the sum stays one of int8 products.
    ///
    /// Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only
    /// Inference" (arXiv:1712.05877), section 2, with symmetric ranges; scales moved into the weights as in
    /// SmoothQuant (Xiao et al. 2023, arXiv:2211.10438), section 4.
    ///
    /// # Errors
    /// Weights that are not whole rows, a weight that is NaN or infinite, scales that are negative, NaN,
    /// infinite, or not one for each column; outputs of another length.
    pub fn quantize_weights(&self, weights: &[f32], columns: usize, values: &mut [i8], scb: &mut [f32]) -> Result<()> {
        count_rows("weights", weights.len(), columns)?;
        self.check(columns)?;
        match self {
            Self::PerTensor(_) => quantize_rows_int8(weights, columns, values, scb),
            Self::PerChannel(scales) => {
                check_finite("weight", weights)?;
                let scaled = weights.chunks(columns).flat_map(|row| row.iter().zip(scales).map(|(w, s)| w * s));
                quantize_rows_int8(&scaled.collect::<Vec<f32>>(), columns, values, scb)
            }
        }
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

    /// What each of `columns` inputs is multiplied by to become an int8. Where a scale is (almost) 0, everything becomes 0.
    pub(crate) fn factors(&self, columns: usize) -> Vec<f32> {
        let factor = |&scale: &f32| if (1.0 / scale).is_finite() { 1.0 / scale } else { 0.0 };
        match self {
            Self::PerTensor(scale) => vec![factor(scale); columns],
            Self::PerChannel(scales) => scales.iter().map(factor).collect(),
        }
    }

    /// The factor that the inputs' scales contribute to a product with int8 weights: a single number, because scales
    /// per channel are already in the weights.
    pub(crate) fn of_products(&self) -> f32 {
        match self {
            Self::PerTensor(scale) => *scale,
            Self::PerChannel(_) => 1.0,
        }
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

#[cfg(test)]
#[path = "static_int8_tests.rs"]
mod tests;
