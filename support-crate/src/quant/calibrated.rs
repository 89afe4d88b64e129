//! What calibration found, layer by layer.

use quantlab_kernels::LARGEST;
use std::fmt;

use serde::Serialize;

use super::calibration::{CalibrationMethod, Granularity};
use super::static_int8::ActivationScale;
use crate::error::{Error, Result};

/// The scales of all layers, and what they were made from. A notebook shows it as a table of one row per layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    method: CalibrationMethod,
    granularity: Granularity,
    layers: Vec<LayerCalibration>,
}

/// What calibration found about the inputs of one layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerCalibration {
    /// The layer's name.
    pub layer: String,
    /// How many tokens went in.
    pub tokens: usize,
    /// How many inputs a token has (`in_features`).
    pub channels: usize,
    /// The largest magnitude that was seen, in the unit of the inputs.
    pub absmax: f32,
    /// The share of the inputs that do not lie within the scale's range, from 0 to 1: with a percentile, at
    /// most what it leaves out.
    pub clipped: f64,
    /// What an int8 step stands for.
    pub scale: ActivationScale,
}

impl Calibration {
    pub(super) fn new(method: CalibrationMethod, granularity: Granularity, layers: Vec<LayerCalibration>) -> Self {
        Self { method, granularity, layers }
    }

    /// What is known of a layer.
    ///
    /// # Errors
    /// The layer was not observed.
    pub fn layer(&self, name: &str) -> Result<&LayerCalibration> {
        self.layers.iter().find(|calibrated| calibrated.layer == name).ok_or_else(|| {
            Error::input(format!("the calibration has no layer `{name}`"))
                .hint("run the calibration prompts through the model that is to be quantized")
        })
    }

    /// The scales of a layer.
    ///
    /// # Errors
    /// As [`layer`](Self::layer).
    pub fn scale(&self, layer: &str) -> Result<&ActivationScale> {
        self.layer(layer).map(|calibrated| &calibrated.scale)
    }

    /// Which magnitude became the end of the int8 range.
    pub fn method(&self) -> CalibrationMethod {
        self.method
    }

    /// What has a scale of its own.
    pub fn granularity(&self) -> Granularity {
        self.granularity
    }

    /// All layers, in the order in which they were first observed.
    pub fn layers(&self) -> &[LayerCalibration] {
        &self.layers
    }
}

impl LayerCalibration {
    /// The largest magnitude that is not clipped: the end of the range of 127 steps, of the channel where that is
    /// largest.
    pub fn largest_unclipped(&self) -> f32 {
        self.scale.range().1 * LARGEST
    }
}

/// `percentile 99.9, per tensor, 24 layers`
impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, granularity, layers } = self;
        let s = if layers.len() == 1 { "" } else { "s" };
        write!(f, "{method}, {granularity}, {} layer{s}", layers.len())
    }
}
