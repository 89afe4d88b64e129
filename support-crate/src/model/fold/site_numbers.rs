//! What the layers of a site read, and their weights, as plain numbers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Mutex;

use quantlab_kernels::{Epilogue, Matrix, matmul, thread_scope};

use super::scales;
use super::{BlockScales, DecoderWeights, Site};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::model::calibrate::observe_prompts;
use crate::model::{DecoderConfig, Loaded};
use crate::progress::Progress;
use crate::quant::AffineInt4;

/// The most tokens whose inputs are kept.
pub(super) const TOKENS: usize = 256;

/// What goes into the layers of one site of one block while a model reads some texts, and their weights.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteNumbers {
    /// Of which block, from 0.
    pub layer: usize,
    /// Which layers of it.
    pub site: Site,
    /// The channel that each input of the layers is: (in). Where heads share values, several inputs are one channel.
    pub channel_of_input: Vec<usize>,
    /// The largest magnitude of each channel over all tokens: (channels).
    pub largest: Vec<f32>,
    /// The mean of the magnitudes of each channel over all tokens: (channels).
    pub means: Vec<f32>,
    /// The inputs of at most 256 tokens, evenly spaced over all texts: (tokens, in), row by row.
    pub inputs: Vec<f32>,
    /// The weights of all layers that read them, one below the other: (out, in), row by row.
    pub weights: Vec<f32>,
}

impl SiteNumbers {
    /// The largest magnitude of the weights that each channel meets: (channels).
    pub fn largest_weights(&self) -> Vec<f32> {
        let mut largest = vec![0.0_f32; self.largest.len()];
        for row in self.weights.chunks_exact(self.channel_of_input.len()) {
            for (weight, &channel) in row.iter().zip(&self.channel_of_input) {
                largest[channel] = largest[channel].max(weight.abs());
            }
        }
        largest
    }

    /// How far the layers' outputs for [`inputs`](Self::inputs) are off, as the sum of squares, if their weights are
    /// multiplied by a scale for each channel, rounded to int4 in groups of `group_size`, and divided again.
    ///
    /// # Errors
    /// Scales that are not one for each channel, or that nothing can be divided by; a group size that is not a multiple of 32,
    /// or does not divide the inputs; scaled weights that int4 cannot represent.
    pub fn int4_error(&self, scales: &[f32], group_size: usize) -> Result<f64> {
        if scales.len() != self.largest.len() {
            return Err(Error::input(format!("{} scales for {} channels", scales.len(), self.largest.len())));
        }
        scales::check(scales)?;
        let k = self.channel_of_input.len();
        let of_inputs: Vec<f32> = self.channel_of_input.iter().map(|&channel| scales[channel]).collect();
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
        let mut outputs = vec![0.0; self.inputs.len() / k * n];
        matmul(&scope, &self.inputs, Matrix { weights: &&*errors, n, k }, Epilogue::default(), &mut outputs);
        Ok(outputs.iter().map(|&error| f64::from(error).powi(2)).sum())
    }
}

/// What is known of the inputs of a layer.
#[derive(Default)]
struct Inputs {
    tokens: usize,
    /// The sum of the magnitudes of each input, and the largest.
    sums: Vec<f64>,
    largest: Vec<f32>,
    /// The inputs of some tokens, row by row.
    rows: Vec<f32>,
}

impl Inputs {
    fn numbers(self, layer: usize, site: Site, config: &DecoderConfig, weights: Vec<f32>) -> SiteNumbers {
        let (channel_of_input, channels) = (site.channel_of_input(config), site.channels(config));
        let (mut largest, mut means) = (vec![0.0_f32; channels], vec![0.0; channels]);
        let inputs_of_channel = (channel_of_input.len() / channels * self.tokens) as f64;
        for ((sum, most), &channel) in self.sums.iter().zip(&self.largest).zip(&channel_of_input) {
            means[channel] += (sum / inputs_of_channel) as f32;
            largest[channel] = largest[channel].max(*most);
        }
        SiteNumbers { layer, site, channel_of_input, largest, means, inputs: self.rows, weights }
    }
}

/// Shows `visit` the numbers of each site of each block, from the first on, while a model in full precision reads the
/// prompts.
///
/// ```
/// use quantlab::model::{LoadOptions, Site, load_model, visit_sites};
///
/// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
/// let mut largest = Vec::new();
/// visit_sites(&loaded, &["Once upon a time"], |site| {
///     if site.site == Site::AttentionIn {
///         largest.push(site.largest.clone());
///     }
///     Ok(())
/// })?;
/// assert_eq!((largest.len(), largest[0].len()), (loaded.model.info().n_layer, 256));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// As [`Fold::smooth_quant`](super::Fold::smooth_quant); what `visit` reports.
pub fn visit_sites(
    loaded: &Loaded,
    prompts: &[impl AsRef<str>],
    mut visit: impl FnMut(&SiteNumbers) -> Result<()>,
) -> Result<()> {
    each_site(loaded, prompts, "reading", TOKENS, &mut |numbers| visit(numbers).map(|()| Vec::new())).map(drop)
}

/// Has scales found for each site of each block, by what goes into its layers while a model reads the prompts; inputs
/// of at most so many tokens are kept for it.
pub(super) fn each_site(
    loaded: &Loaded,
    prompts: &[impl AsRef<str>],
    method: &'static str,
    tokens: usize,
    find: &mut dyn FnMut(&SiteNumbers) -> Result<Vec<f32>>,
) -> Result<Vec<BlockScales>> {
    let decoder = DecoderWeights::of(loaded)?;
    let mut observed = observe(loaded, &decoder, prompts, tokens)?;
    let mut progress = Progress::new(method, decoder.config.n_layer, "layers");
    let mut blocks = Vec::new();
    for layer in 0..decoder.config.n_layer {
        let of_site = |site: Site| {
            interrupt::check()?;
            let module = decoder.module(layer, site.readers(&decoder)[0]);
            let inputs = observed.remove(&module);
            let inputs =
                inputs.ok_or_else(|| Error::system(format!("nothing is known of the inputs of `{module}`")))?;
            Ok((site, find(&inputs.numbers(layer, site, &decoder.config, decoder.readers(layer, site)?))?))
        };
        let scales: Result<BlockScales> = Site::of(&decoder.config).map(of_site).collect();
        blocks.push(scales.context(|| format!("layer {layer}"))?);
        progress.advance(1);
    }
    Ok(blocks)
}

/// The inputs of the first layer of each site, by its name; those of at most `kept` tokens one by one.
fn observe(
    loaded: &Loaded,
    decoder: &DecoderWeights,
    prompts: &[impl AsRef<str>],
    kept: usize,
) -> Result<HashMap<String, Inputs>> {
    let mut tokens = 0;
    for prompt in prompts {
        tokens += loaded.tokenizer.encode(prompt.as_ref())?.len();
    }
    // Every so many, through all prompts.
    let step = tokens.div_ceil(kept).max(1);
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
        known.largest.resize(channels, 0.0);
        for token in inputs.chunks_exact(channels) {
            known.sums.iter_mut().zip(token).for_each(|(sum, input)| *sum += f64::from(input.abs()));
            known.largest.iter_mut().zip(token).for_each(|(most, input)| *most = most.max(input.abs()));
            if known.tokens.is_multiple_of(step) {
                known.rows.extend_from_slice(token);
            }
            known.tokens += 1;
        }
        Ok(())
    })?;
    Ok(observed.into_inner())
}
