//! The scales of AWQ.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Mutex;

use quantlab_kernels::{Epilogue, Matrix, matmul, thread_scope};

use super::{BlockScales, DecoderWeights, Site};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::model::Loaded;
use crate::model::calibrate::observe_prompts;
use crate::progress::Progress;
use crate::quant::AffineInt4;

/// How many powers are tried: multiples of its inverse, from 0 on.
const POWERS: usize = 20;

/// The most tokens whose outputs are compared.
const TOKENS: usize = 256;

/// The least power of a mean: no channel is divided by less, before all are divided by one number.
const LEAST: f32 = 1e-4;

/// What is known of the inputs of a layer.
#[derive(Default)]
struct Inputs {
    tokens: usize,
    /// The sum of the magnitudes of each input.
    sums: Vec<f64>,
    /// The inputs of some tokens, row by row.
    rows: Vec<f32>,
}

/// Finds the scales of all blocks.
///
/// Source: `_search_module_scale` in `auto_scale.py` of mit-han-lab/llm-awq.
pub(super) fn find(loaded: &Loaded, prompts: &[impl AsRef<str>], group_size: usize) -> Result<Vec<BlockScales>> {
    let decoder = DecoderWeights::of(loaded)?;
    for site in Site::of(&decoder.config) {
        AffineInt4::check_rows(site.channel_of_input(&decoder.config).len(), group_size)?;
    }
    let mut observed = observe(loaded, &decoder, prompts)?;
    let mut progress = Progress::new("AWQ", decoder.config.n_layer, "layers");
    let mut blocks = Vec::new();
    for layer in 0..decoder.config.n_layer {
        let mut find = |site: Site| {
            let module = decoder.module(layer, site.readers(&decoder)[0]);
            let inputs = observed.remove(&module);
            let inputs =
                inputs.ok_or_else(|| Error::system(format!("nothing is known of the inputs of `{module}`")))?;
            let search = Search {
                inputs,
                weights: decoder.readers(layer, site)?,
                channel_of: site.channel_of_input(&decoder.config),
                channels: site.channels(&decoder.config),
                group_size,
            };
            Ok((site, search.best()?))
        };
        let scales: Result<BlockScales> = Site::of(&decoder.config).map(&mut find).collect();
        blocks.push(scales.context(|| format!("layer {layer}"))?);
        progress.advance(1);
    }
    Ok(blocks)
}

/// The inputs of the first layer of each site, by its name.
fn observe(loaded: &Loaded, decoder: &DecoderWeights, prompts: &[impl AsRef<str>]) -> Result<HashMap<String, Inputs>> {
    let mut tokens = 0;
    for prompt in prompts {
        tokens += loaded.tokenizer.encode(prompt.as_ref())?.len();
    }
    // Every so many, through all prompts.
    let step = tokens.div_ceil(TOKENS).max(1);
    let sites: Vec<Site> = Site::of(&decoder.config).collect();
    let firsts = (0..decoder.config.n_layer)
        .flat_map(|layer| sites.iter().map(move |site| decoder.module(layer, site.readers(decoder)[0])));
    let observed: RefCell<HashMap<String, Inputs>> =
        RefCell::new(firsts.map(|name| (name, Inputs::default())).collect());
    observe_prompts(loaded, prompts, &|layer, inputs, channels, _| {
        if let Some(input) = inputs.iter().find(|input| !input.is_finite()) {
            return Err(Error::input(format!("{layer}: an input is {input}"))
                .hint("a model that computes no numbers cannot be quantized"));
        }
        let mut observed = observed.borrow_mut();
        let Some(known) = observed.get_mut(layer) else { return Ok(()) };
        known.sums.resize(channels, 0.0);
        for token in inputs.chunks_exact(channels) {
            known.sums.iter_mut().zip(token).for_each(|(sum, input)| *sum += f64::from(input.abs()));
            if known.tokens.is_multiple_of(step) {
                known.rows.extend_from_slice(token);
            }
            known.tokens += 1;
        }
        Ok(())
    })?;
    Ok(observed.into_inner())
}

/// A search for the scales of one site.
struct Search {
    inputs: Inputs,
    /// (out, in) of all layers that read the inputs.
    weights: Vec<f32>,
    channel_of: Vec<usize>,
    channels: usize,
    group_size: usize,
}

impl Search {
    /// The scales with the least error.
    fn best(&self) -> Result<Vec<f32>> {
        let mut means = vec![0.0; self.channels];
        let inputs_of_channel = (self.channel_of.len() / self.channels * self.inputs.tokens) as f64;
        for (sum, &channel) in self.inputs.sums.iter().zip(&self.channel_of) {
            means[channel] += (sum / inputs_of_channel) as f32;
        }
        let mut best = (f64::INFINITY, vec![1.0; self.channels]);
        for step in 0..POWERS {
            interrupt::check()?;
            let scales = scales(&means, step as f32 / POWERS as f32);
            let error = self.error(&scales)?;
            if error < best.0 {
                best = (error, scales);
            }
        }
        Ok(best.1)
    }

    /// The squared error of the layers' outputs with weights that are rounded after multiplying by `scales`.
    fn error(&self, scales: &[f32]) -> Result<f64> {
        let (k, group_size) = (self.channel_of.len(), self.group_size);
        let of_inputs: Vec<f32> = self.channel_of.iter().map(|&channel| scales[channel]).collect();
        let mut errors = self.weights.clone(); // (out, in)
        let failed = Mutex::new(Ok(()));
        let scope = thread_scope();
        scope.split_mut(&mut errors, k, 32 * k, &|_, rows| {
            let scaled = |rows: &[f32]| -> Vec<f32> {
                rows.chunks_exact(k).flat_map(|row| row.iter().zip(&of_inputs).map(|(w, scale)| w * scale)).collect()
            };
            match AffineInt4::quantize(&scaled(rows), k, group_size) {
                Ok(quantized) => {
                    let restored = quantized.dequantize();
                    for (row, restored) in rows.chunks_exact_mut(k).zip(restored.chunks_exact(k)) {
                        for ((weight, restored), scale) in row.iter_mut().zip(restored).zip(&of_inputs) {
                            *weight -= restored / scale;
                        }
                    }
                }
                Err(error) => {
                    if let Ok(mut failed) = failed.lock() {
                        *failed = Err(error);
                    }
                }
            }
        });
        failed.into_inner().unwrap_or(Ok(()))?;
        let n = errors.len() / k;
        let mut outputs = vec![0.0; self.inputs.rows.len() / k * n];
        matmul(&scope, &self.inputs.rows, Matrix { weights: &&*errors, n, k }, Epilogue::default(), &mut outputs);
        Ok(outputs.iter().map(|&error| f64::from(error).powi(2)).sum())
    }
}

/// Means to a power, divided so that the largest is the inverse of the smallest.
fn scales(means: &[f32], power: f32) -> Vec<f32> {
    let powers: Vec<f32> = means.iter().map(|mean| mean.powf(power).max(LEAST)).collect();
    let smallest = powers.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = powers.iter().copied().fold(0.0, f32::max);
    let middle = (smallest * largest).sqrt();
    powers.into_iter().map(|power| power / middle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_powers_around_one() {
        assert_eq!(scales(&[0.25, 4.0, 1.0], 0.5), [0.5, 2.0, 1.0]);
        assert_eq!(scales(&[0.25, 4.0, 1.0], 0.0), [1.0; 3]);
        assert!(scales(&[0.0, 4.0], 0.5).iter().all(|scale| scale.is_normal()));
    }

    /// One channel of large inputs, whose weights are small beside those of their group.
    #[test]
    fn weights_that_meet_large_inputs_are_protected() {
        let k = 32;
        let weights: Vec<f32> =
            (0..8 * k).map(|i| (i as f32 * 0.77).sin() * if i % k == 5 { 0.1 } else { 1.0 }).collect();
        let rows: Vec<f32> =
            (0..16 * k).map(|i| (i as f32 * 1.3).cos() * if i % k == 5 { 50.0 } else { 1.0 }).collect();
        let mut sums = vec![0.0; k];
        rows.iter().enumerate().for_each(|(i, input)| sums[i % k] += f64::from(input.abs()));
        let inputs = Inputs { tokens: 16, sums, rows };
        let search = Search { inputs, weights, channel_of: (0..k).collect(), channels: k, group_size: 32 };
        let best = search.best().unwrap();
        let others = best.iter().enumerate().filter(|(channel, _)| *channel != 5).map(|(_, scale)| *scale);
        assert!(best[5] > 3.0 * others.fold(0.0, f32::max), "{best:?}");
        let [found, plain] = [best, vec![1.0; k]].map(|scales| search.error(&scales).unwrap());
        assert!(found < 0.3 * plain, "{found} {plain}");
    }
}
