//! Rows of 8-bit weights, as bitsandbytes has them, and static int8.
//!
//! Source: `Linear8bitLt` in bitsandbytes `nn/modules.py`.

use half::f16;
use quantlab_kernels::{ActivationQuant, PackedInt8, Product, Weights as KernelWeights, round_to_f16};
use safetensors::Dtype;

use super::parts::{FullPrecision, in_parts};
use super::{Operands, QuantizedWeight, StateBytes, float32_bytes, floats, no_checkpoint};
use crate::error::{Error, Result};
use crate::model::Weights;
use crate::model::weights::StateTensor;
use crate::quant::{Int8Rows, LayerCalibration, quantize_rows_int8};

/// A matrix of 8-bit numbers.
#[derive(Debug)]
pub(in crate::model) struct Int8Matrix {
    rows: Int8Rows,
    /// The sum of each row.
    sums: Vec<i32>,
    activations: Activations,
}

/// How inputs become 8 bits.
#[derive(Debug)]
enum Activations {
    /// By each token's largest magnitude; columns that reach the threshold are kept out, unless it is 0.
    Dynamic { threshold: f32 },
    /// By a factor for each channel; the products of bytes stand for that many times `scale`.
    Static { factors: Vec<f32>, scale: f32 },
}

impl Int8Matrix {
    /// For LLM.int8() with this threshold.
    pub fn new(rows: Int8Rows, threshold: f32) -> Self {
        Self::with_activations(rows, Activations::Dynamic { threshold })
    }

    fn with_activations(rows: Int8Rows, activations: Activations) -> Self {
        let sum = |row: &[i8]| row.iter().map(|&value| i32::from(value)).sum();
        let sums = rows.values().chunks_exact(rows.columns()).map(sum).collect();
        Self { rows, sums, activations }
    }

    /// Quantizes weights of full precision.
    ///
    /// # Errors
    /// A weight that is NaN or infinite, or would be in float16, by output and input; too many inputs.
    pub fn quantize(weights: FullPrecision<'_>, threshold: f32) -> Result<Self> {
        let k = weights.tensor.shape[1];
        let is_float16 = |weight| f16::from_f32(weight).is_finite();
        let (values, scb) = in_parts(weights, (1, k), is_float16, |rows, values, scb| {
            // As bitsandbytes does: float16 first.
            let mut narrow = vec![0.0; rows.len()];
            round_to_f16(rows, &mut narrow);
            quantize_rows_int8(&narrow, k, values, scb)
        })?;
        Ok(Self::new(Int8Rows::with_values(values, scb, k)?, threshold))
    }

    /// Quantizes weights of full precision, for inputs quantized by the scales of a calibration.
    ///
    /// # Errors
    /// As [`quantize`](Self::quantize), except for float16; scales for another number of inputs.
    pub fn quantize_static(weights: FullPrecision<'_>, calibration: &LayerCalibration) -> Result<Self> {
        let (k, LayerCalibration { channels, scale, .. }) = (weights.tensor.shape[1], calibration);
        if *channels != k {
            return Err(Error::input(format!(
                "the calibration has {channels} inputs for each token, but the layer has {k}"
            ))
            .hint("calibrate the model that is to be quantized"));
        }
        let (values, scb) = in_parts(weights, (1, k), f32::is_finite, |rows, values, scb| {
            scale.quantize_weights(rows, k, values, scb)
        })?;
        let activations = Activations::Static { factors: scale.factors(k), scale: scale.of_products() };
        Ok(Self::with_activations(Int8Rows::with_values(values, scb, k)?, activations))
    }

    /// A layer of a checkpoint whose weight is called `name`.
    ///
    /// # Errors
    /// Tensors that are missing, or that contradict each other or the shape.
    pub fn read(weights: &Weights, name: &str, (n, k): (usize, usize), threshold: f32) -> Result<Self> {
        let module = name.strip_suffix(".weight").unwrap_or(name);
        let format_name = format!("{module}.weight_format");
        if weights.contains(&format_name) && weights.bytes(&format_name)?.iter().any(|&byte| byte != 0) {
            return Err(Error::format(format!("`{format_name}` is not 0: the weights are not stored row by row"))
                .hint("save the checkpoint with a newer version of bitsandbytes"));
        }
        weights.check(name, &[n, k])?;
        let scb_name = format!("{module}.SCB");
        if !weights.contains(&scb_name) {
            return Err(Error::format(format!("the int8 weights have no scales for their rows, `{scb_name}`")));
        }
        let values = weights.bytes_to_stay(name, true, u8::cast_signed)?;
        Ok(Self::new(Int8Rows::with_values(values, floats(weights, &scb_name, n)?, k)?, threshold))
    }
}

impl KernelWeights for Int8Matrix {
    fn multiply(&self, product: Product<'_>) {
        let activations = match &self.activations {
            Activations::Dynamic { threshold } => ActivationQuant::Dynamic { threshold: *threshold },
            Activations::Static { factors, scale } => ActivationQuant::Static { factors, scale: *scale },
        };
        let (values, absmax) = (self.rows.values(), self.rows.scb());
        PackedInt8 { values, absmax, sums: &self.sums, activations }.multiply(product);
    }
}

impl QuantizedWeight for Int8Matrix {
    fn shape(&self) -> [usize; 2] {
        [self.rows.rows(), self.rows.columns()]
    }

    fn code_bytes(&self) -> usize {
        let [n, k] = self.shape();
        n * k
    }

    fn state_bytes(&self) -> StateBytes {
        let of_activations = match &self.activations {
            Activations::Dynamic { .. } => 0,
            Activations::Static { factors, .. } => size_of_val(factors.as_slice()),
        };
        let all = size_of_val(self.rows.scb()) + size_of_val(self.sums.as_slice()) + of_activations;
        StateBytes { all, unread: 0 }
    }

    fn operands(&self) -> Option<Operands<'_>> {
        match self.activations {
            Activations::Dynamic { threshold } => Some(Operands::Int8(&self.rows, threshold)),
            Activations::Static { .. } => None,
        }
    }

    fn forget_codes(&mut self) {
        self.rows.forget_values();
        self.sums = Vec::new();
    }

    fn state_dict<'a>(&'a self, module: &str) -> Result<Vec<StateTensor<'a>>> {
        let Activations::Dynamic { .. } = self.activations else { return Err(no_checkpoint()) };
        let shape = self.shape();
        let values = || self.rows.values().iter().map(|&value| value.cast_unsigned()).collect();
        let scb = float32_bytes(self.rows.scb());
        Ok(vec![
            StateTensor::later(format!("{module}.weight"), Dtype::I8, &shape, values),
            StateTensor::new(format!("{module}.SCB"), Dtype::F32, &shape[..1], scb),
            // Row by row, the only layout that there still is.
            StateTensor::new(format!("{module}.weight_format"), Dtype::U8, &[], vec![0]),
        ])
    }
}
