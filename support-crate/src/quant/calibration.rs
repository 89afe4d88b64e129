//! Turns inputs of layers, observed while a model runs on prompts, into the scales that static int8 quantizes them by.

use quantlab_kernels::LARGEST;
use std::collections::HashMap;
use std::fmt;

use serde::{Serialize, Serializer};

use super::float::{Float, absolute_maximum, check_finite, count_rows};
use super::histogram::Histogram;
use super::static_int8::ActivationScale;
use crate::error::{Error, Result};

/// Which magnitude becomes the end of the int8 range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CalibrationMethod {
    /// The largest that was observed: nothing is clipped, and one outlier makes all steps wide.
    AbsMax,
    /// One that this many percent of the inputs do not exceed, for example 99.99; the rest is clipped to it.
    Percentile(f64),
}

/// What has a scale of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Granularity {
    /// All inputs of a layer together.
    #[serde(rename = "per tensor")]
    PerTensor,
    /// Each input feature of a layer. The weights are multiplied by the scales before they are quantized, so where
    /// one feature is much larger than the others, the others' weights are left with few steps: such a layer does
    /// better per tensor. A feature's largest input also comes late: take thousands of tokens.
    #[serde(rename = "per channel")]
    PerChannel,
}

impl Granularity {
    /// Bins of a histogram: a percentile is accurate to the largest magnitude divided by half this number. Fewer where
    /// each of thousands of channels has one; about as fine as the 127 steps of int8.
    fn bins(self) -> usize {
        match self {
            Self::PerTensor => 2048,
            Self::PerChannel => 256,
        }
    }
}

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
    /// The largest magnitude that was observed, in the unit of the inputs.
    pub absmax: f32,
    /// The share of the inputs that do not lie within the scale's range, from 0 to 1: with a percentile, at
    /// most what it leaves out.
    pub clipped: f64,
    /// What an int8 step stands for.
    pub scale: ActivationScale,
}

impl Calibration {
    /// What is known about a layer.
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
    /// The largest magnitude that is not clipped: the end of the range of 127 steps, in the channel where it is
    /// largest.
    pub fn largest_unclipped(&self) -> f32 {
        self.scale.range().1 * LARGEST
    }
}

/// Observes the inputs of linear layers, and finds their scales.
///
/// ```
/// use quantlab::quant::{CalibrationMethod, Calibrator, Granularity};
///
/// let mut calibrator = Calibrator::new(CalibrationMethod::AbsMax, Granularity::PerTensor)?;
/// calibrator.observe("h.0.mlp.c_fc", &[0.5_f32, -31.75, 1.0, 0.0], 2)?;
/// let calibration = calibrator.finish()?;
/// assert_eq!(calibration.scale("h.0.mlp.c_fc")?.range(), (0.25, 0.25));
/// assert_eq!(calibration.to_string(), "absolute maximum, per tensor, 1 layer");
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Calibrator {
    method: CalibrationMethod,
    granularity: Granularity,
    layers: Vec<Observed>,
    index_of: HashMap<String, usize>,
}

/// What is known of a layer's inputs: for all of them, or for each channel.
#[derive(Debug, Clone)]
struct Observed {
    layer: String,
    tokens: usize,
    channels: usize,
    absmax: Vec<f32>,
    /// Empty where percentiles are not asked for.
    histograms: Vec<Histogram>,
}

impl Calibrator {
    /// A calibrator that has observed nothing yet.
    ///
    /// # Errors
    /// A percentile that is not above 0 and at most 100.
    pub fn new(method: CalibrationMethod, granularity: Granularity) -> Result<Self> {
        if let CalibrationMethod::Percentile(percent) = method
            && !(percent > 0.0 && percent <= 100.0)
        {
            return Err(Error::input(format!("the percentile cannot be {percent}"))
                .hint("it must be above 0 and at most 100; try 99.99"));
        }
        Ok(Self { method, granularity, layers: Vec::new(), index_of: HashMap::new() })
    }

    /// Observes what goes into a linear layer: any number of tokens, of `channels` inputs each. Call this for each
    /// layer, prompt after prompt.
    ///
    /// # Errors
    /// Inputs that are not whole tokens, that have a different number of channels than before, or of which one is NaN
    /// or infinite. They are then not counted.
    pub fn observe<T: Float>(&mut self, layer: &str, inputs: &[T], channels: usize) -> Result<()> {
        self.observe_checked(layer, inputs, channels).map_err(|error| error.context(layer))
    }

    fn observe_checked<T: Float>(&mut self, layer: &str, inputs: &[T], channels: usize) -> Result<()> {
        let tokens = count_rows("inputs", inputs.len(), channels)?;
        check_finite("input", inputs)?;
        let observed = match self.index_of.get(layer) {
            Some(&index) => &mut self.layers[index],
            None => {
                self.index_of.insert(layer.to_owned(), self.layers.len());
                self.layers.push(self.unobserved(layer, channels));
                self.layers.last_mut().expect("a layer was pushed")
            }
        };
        if observed.channels != channels {
            return Err(Error::input(format!("{channels} inputs for each token, but {} before", observed.channels)));
        }
        observed.tokens += tokens;
        let mut buffer = vec![0.0; inputs.len()];
        observed.add(T::widen(inputs, &mut buffer));
        Ok(())
    }

    fn unobserved(&self, layer: &str, channels: usize) -> Observed {
        let scales = match self.granularity {
            Granularity::PerTensor => 1,
            Granularity::PerChannel => channels,
        };
        let histograms = match self.method {
            CalibrationMethod::AbsMax => Vec::new(),
            CalibrationMethod::Percentile(_) => vec![Histogram::new(self.granularity.bins()); scales],
        };
        Observed { layer: layer.to_owned(), tokens: 0, channels, absmax: vec![0.0; scales], histograms }
    }

    /// The scales of all layers, in the order in which they were first observed.
    ///
    /// # Errors
    /// No layer was observed.
    pub fn finish(self) -> Result<Calibration> {
        if self.layers.is_empty() {
            return Err(Error::input("no layer was observed").hint("run the model on some prompts first"));
        }
        let Self { method, granularity, layers, .. } = self;
        let layers = layers.into_iter().map(|observed| observed.calibrate(method, granularity)).collect();
        Ok(Calibration { method, granularity, layers })
    }
}

impl Observed {
    fn add(&mut self, inputs: &[f32]) {
        if let [whole] = self.absmax.as_mut_slice() {
            let largest = absolute_maximum(inputs).unwrap_or_default();
            *whole = whole.max(largest);
            if let [histogram] = self.histograms.as_mut_slice() {
                histogram.add(inputs.iter().map(|input| input.abs()), largest);
            }
            return;
        }
        for token in inputs.chunks(self.channels) {
            self.absmax.iter_mut().zip(token).for_each(|(largest, input)| *largest = largest.max(input.abs()));
        }
        for (channel, histogram) in self.histograms.iter_mut().enumerate() {
            let magnitudes = inputs[channel..].iter().step_by(self.channels).map(|input| input.abs());
            histogram.add(magnitudes, self.absmax[channel]);
        }
    }

    fn calibrate(self, method: CalibrationMethod, granularity: Granularity) -> LayerCalibration {
        let (mut ends, mut clipped) = (self.absmax.clone(), 0);
        if let CalibrationMethod::Percentile(percent) = method {
            for (end, histogram) in ends.iter_mut().zip(&self.histograms) {
                let percentile = histogram.percentile(percent);
                if percentile.magnitude < f64::from(*end) {
                    *end = percentile.magnitude as f32;
                    clipped += percentile.beyond;
                }
            }
        }
        let scales: Vec<f32> = ends.iter().map(|end| end / LARGEST).collect();
        LayerCalibration {
            layer: self.layer,
            tokens: self.tokens,
            channels: self.channels,
            absmax: self.absmax.iter().copied().fold(0.0, f32::max),
            clipped: clipped as f64 / (self.tokens * self.channels) as f64,
            scale: match granularity {
                Granularity::PerTensor => ActivationScale::PerTensor(scales[0]),
                Granularity::PerChannel => ActivationScale::PerChannel(scales),
            },
        }
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

impl fmt::Display for CalibrationMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AbsMax => f.write_str("absolute maximum"),
            Self::Percentile(percent) => write!(f, "percentile {percent}"),
        }
    }
}

impl Serialize for CalibrationMethod {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
#[path = "calibration_tests.rs"]
mod tests;
