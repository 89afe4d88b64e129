//! The scales of SmoothQuant.

use super::site_numbers::{find_scales, largest_weights};
use super::{BlockScales, DecoderWeights};
use crate::error::Result;
use crate::model::{Loaded, calibrate};
use crate::quant::{ActivationScale, CalibrationMethod, Granularity};

/// Finds the scales of all blocks.
///
/// Source: `smooth_ln_fcs` in `smooth.py` of mit-han-lab/smoothquant.
pub(super) fn find(loaded: &Loaded, prompts: &[impl AsRef<str>], alpha: f32) -> Result<Vec<BlockScales>> {
    // Scales of int8, each the largest magnitude over 127: all in proportion.
    let calibration = calibrate(loaded, prompts, CalibrationMethod::AbsMax, Granularity::PerChannel)?;
    let decoder = DecoderWeights::of(loaded)?;
    find_scales(&decoder, "SmoothQuant", |layer, site| {
        let observed = calibration.layer(&decoder.module(layer, site.readers(&decoder)[0]))?;
        let channel_of = site.channel_of_input(&decoder.config);
        let mut inputs = vec![0.0_f32; site.channels(&decoder.config)];
        for (input, &channel) in channel_of.iter().enumerate() {
            let largest = match &observed.scale {
                ActivationScale::PerChannel(scales) => scales[input] * quantlab_kernels::LARGEST,
                ActivationScale::PerTensor(_) => observed.absmax,
            };
            inputs[channel] = inputs[channel].max(largest);
        }
        let weights = largest_weights(&decoder.readers(layer, site)?, &channel_of, inputs.len());
        Ok(inputs.into_iter().zip(weights).map(|(input, weight)| smoothing(input, weight, alpha)).collect())
    })
}

/// `max|X|^alpha / max|W|^(1 - alpha)`; 1 where that is not a number of ordinary size, as it is for a channel of zeros.
fn smoothing(input: f32, weight: f32, alpha: f32) -> f32 {
    let scale = input.powf(alpha) / weight.powf(1.0 - alpha);
    if input > 0.0 && weight > 0.0 && (1e-6..1e6).contains(&scale) { scale } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alpha_divides_the_difficulty() {
        assert_eq!(smoothing(64.0, 0.25, 0.5), 16.0);
        assert_eq!(smoothing(64.0, 0.25, 1.0), 64.0);
        assert_eq!(smoothing(64.0, 0.25, 0.0), 4.0);
        for (input, weight) in [(0.0, 1.0), (1.0, 0.0), (1e20, 1e-20), (f32::NAN, 1.0)] {
            assert_eq!(smoothing(input, weight, 0.5), 1.0, "{input} {weight}");
        }
    }
}
