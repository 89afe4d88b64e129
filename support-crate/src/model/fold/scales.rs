//! What channels are divided by.

use std::sync::Arc;

use super::{Change, DecoderWeights, Site, choose_channels};
use crate::error::{Context, Error, Result};
use crate::model::NormKind;

/// A positive number for each channel of some sites of a block.
pub(super) type BlockScales = Vec<(Site, Vec<f32>)>;

/// Makes sure that a model can be divided by these numbers and multiplied again.
///
/// # Errors
/// One that is not positive, not finite, or has no finite inverse.
pub(super) fn check(scales: &[f32]) -> Result<()> {
    match scales.iter().find(|&&scale| !(scale > 0.0 && scale.is_finite() && (1.0 / scale).is_normal())) {
        None => Ok(()),
        Some(scale) => Err(Error::input(format!("channels cannot be scaled by {scale}"))
            .hint("a scale is a positive number whose inverse is finite too")),
    }
}

impl DecoderWeights {
    /// Divides channels in all blocks, and multiplies the weights that they meet.
    ///
    /// # Errors
    /// Scales of another number of blocks or channels; some that [`check`] refuses.
    pub fn scale(&mut self, blocks: &[BlockScales]) -> Result<()> {
        let other_model = |what: String| {
            Error::input(format!("{what}: the scales were found for another model"))
                .hint("find them for the model that they are to be folded into, in full precision")
        };
        if blocks.len() != self.config.n_layer {
            return Err(other_model(format!("the model has {} layers, not {}", self.config.n_layer, blocks.len())));
        }
        for (layer, scales) in blocks.iter().enumerate() {
            for (site, scales) in scales {
                let channels = site.channels(&self.config);
                if scales.len() != channels || Site::of(&self.config).all(|of_model| of_model != *site) {
                    return Err(other_model(format!(
                        "layer {layer} has {channels} channels at {site:?}, not {}",
                        scales.len()
                    )));
                }
                check(scales).context(|| format!("layer {layer}"))?;
                self.scale_site(layer, *site, scales);
            }
        }
        Ok(())
    }

    /// Multiplies some channels of some sites, the same ones in all blocks.
    ///
    /// # Errors
    /// More channels than there are; a site that the model does not have.
    pub fn add_outliers(&mut self, sites: &[Site], channels: usize, factor: f32, seed: u64) -> Result<()> {
        for &site in sites {
            if Site::of(&self.config).all(|of_model| of_model != site) {
                return Err(Error::input(format!("nothing before `{site}` can be multiplied by a factor")).hint(
                    "its feed-forward part is not gated, and an activation alone does not commute with a factor",
                ));
            }
            let mut scales = vec![1.0; site.channels(&self.config)];
            for channel in choose_channels(channels, scales.len(), seed).context(|| site.to_string())? {
                scales[channel] = 1.0 / factor;
            }
            for layer in 0..self.config.n_layer {
                self.scale_site(layer, site, &scales);
            }
        }
        Ok(())
    }

    fn scale_site(&mut self, layer: usize, site: Site, scales: &[f32]) {
        let of_inputs = site.channel_of_input(&self.config).iter().map(|&channel| scales[channel]).collect();
        let columns = Change::ScaleColumns(of_inputs);
        for reader in site.readers(self) {
            self.change_block(layer, reader, "weight", columns.clone());
        }
        let (maker, first, has_bias) = self.maker(site);
        let factors: Arc<[f32]> = scales.iter().map(|scale| 1.0 / scale).collect();
        for end in ["weight", "bias"].into_iter().filter(|end| has_bias || *end == "weight") {
            self.change_block(layer, maker, end, Change::ScaleRows { first, factors: factors.clone() });
        }
    }

    /// What makes the channels: its name within a block, the first of its outputs that is one, and whether it has a bias
    /// (a norm: a shift).
    fn maker(&self, site: Site) -> (&'static str, usize, bool) {
        let (names, config) = (self.names, &self.config);
        let shifts = config.norm == NormKind::Layer;
        match site {
            // Families without these norms are refused.
            Site::AttentionIn => (names.attention_norm.unwrap_or_default(), 0, shifts),
            Site::MlpIn => (names.mlp_norm.unwrap_or_default(), 0, shifts),
            Site::AttentionOut => {
                // Values come last, in a layer of their own or with queries and keys.
                let joint = (config.n_head + config.n_kv_head) * config.head_dim;
                let values = names.attention_in[names.attention_in.len() - 1];
                (values, if names.attention_in.len() == 1 { joint } else { 0 }, config.biases.attention_in)
            }
            Site::MlpOut => {
                // After the gate, in a layer of its own or with it.
                let factors = names.mlp_in[names.mlp_in.len() - 1];
                (factors, if names.mlp_in.len() == 1 { config.intermediate_size } else { 0 }, config.biases.mlp)
            }
        }
    }
}
