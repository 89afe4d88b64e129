//! What calibration found, layer by layer.

use std::fmt;

use serde::Serialize;

use super::calibration::{CalibrationMethod, Granularity};
use super::static_int8::ActivationScale;
use crate::error::{Error, Result};

/// The scales of all layers, and what they were made from. As text, it is a table of one row per layer.
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

    /// The scales of a layer.
    ///
    /// # Errors
    /// The layer was not observed.
    pub fn scale(&self, layer: &str) -> Result<&ActivationScale> {
        let found = self.layers.iter().find(|calibrated| calibrated.layer == layer);
        found.map(|calibrated| &calibrated.scale).ok_or_else(|| {
            Error::input(format!("the inputs of `{layer}` were not calibrated"))
                .hint("run the calibration prompts through every layer that is to be quantized")
        })
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

impl fmt::Display for Calibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, granularity, layers } = self;
        writeln!(f, "Static int8, {method}, {granularity}: {} layers", layers.len())?;
        let width = layers.iter().map(|calibrated| calibrated.layer.chars().count()).fold(5, usize::max);
        write!(f, "{:width$}  {:>8}  {:>9}  {:>21}  {:>8}", "layer", "tokens", "absmax", "scale", "clipped")?;
        for LayerCalibration { layer, tokens, absmax, clipped, scale, .. } in layers {
            let scale = match scale.range() {
                (low, high) if low == high => format!("{low:.3e}"),
                (low, high) => format!("{low:.3e} to {high:.3e}"),
            };
            let percent = clipped * 100.0;
            write!(f, "\n{layer:width$}  {tokens:>8}  {absmax:>9.3}  {scale:>21}  {percent:>7.3}%")?;
        }
        Ok(())
    }
}
