//! The scales of SmoothQuant.

use super::{BlockScales, DecoderWeights, Site};
use crate::error::{Context, Result};
use crate::interrupt;
use crate::model::{Loaded, calibrate};
use crate::progress::Progress;
use crate::quant::{ActivationScale, Calibration, CalibrationMethod, Granularity};

/// Finds the scales of all blocks.
///
/// Source: `smooth_ln_fcs` in `smooth.py` of mit-han-lab/smoothquant.
pub(super) fn find(loaded: &Loaded, prompts: &[impl AsRef<str>], alpha: f32) -> Result<Vec<BlockScales>> {
    // Scales of int8, each the largest magnitude over 127: all in proportion.
    let calibration = calibrate(loaded, prompts, CalibrationMethod::AbsMax, Granularity::PerChannel)?;
    let decoder = DecoderWeights::of(loaded)?;
    let mut progress = Progress::new("SmoothQuant", decoder.config.n_layer, "layers");
    let mut blocks = Vec::new();
    for layer in 0..decoder.config.n_layer {
        let find = |site| Ok((site, of_site(&decoder, &calibration, layer, site, alpha)?));
        let scales: Result<BlockScales> = Site::of(&decoder.config).map(find).collect();
        blocks.push(scales.context(|| format!("layer {layer}"))?);
        progress.advance(1);
    }
    Ok(blocks)
}

fn of_site(
    decoder: &DecoderWeights,
    calibration: &Calibration,
    layer: usize,
    site: Site,
    alpha: f32,
) -> Result<Vec<f32>> {
    interrupt::check()?;
    let module = decoder.module(layer, site.readers(decoder)[0]);
    let observed = calibration.layer(&module)?;
    let channel_of = site.channel_of_input(&decoder.config);
    let mut inputs = vec![0.0_f32; site.channels(&decoder.config)];
    let mut weights = inputs.clone();
    for (input, &channel) in channel_of.iter().enumerate() {
        let largest = match &observed.scale {
            ActivationScale::PerChannel(scales) => scales[input] * quantlab_kernels::LARGEST,
            ActivationScale::PerTensor(_) => observed.absmax,
        };
        inputs[channel] = inputs[channel].max(largest);
    }
    for row in decoder.readers(layer, site)?.chunks_exact(channel_of.len()) {
        for (weight, &channel) in row.iter().zip(&channel_of) {
            weights[channel] = weights[channel].max(weight.abs());
        }
    }
    let scale = |(input, weight): (f32, f32)| smoothing(input, weight, alpha);
    Ok(inputs.into_iter().zip(weights).map(scale).collect())
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
