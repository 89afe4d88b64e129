//! The places of a block where channels can be scaled.

use std::fmt;

use super::DecoderWeights;
use crate::model::DecoderConfig;

/// Layers that read the same inputs, after something that can divide these by a factor for each channel. The output of
/// a feed-forward part is such a place only if the part is gated: an activation alone does not commute with a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// Queries, keys and values, after a norm: C channels.
    AttentionIn,
    /// The output of attention, after the values: J D channels, each of which several heads may read.
    AttentionOut,
    /// The feed-forward part, after a norm: C channels.
    MlpIn,
    /// The output of a gated feed-forward part, after the product that is gated: I channels.
    MlpOut,
}

impl Site {
    /// Those that a model has.
    pub(super) fn of(config: &DecoderConfig) -> impl Iterator<Item = Self> {
        let gated = config.gated;
        let all = [Self::AttentionIn, Self::AttentionOut, Self::MlpIn, Self::MlpOut];
        all.into_iter().filter(move |site| gated || *site != Self::MlpOut)
    }

    /// How many channels have a factor of their own.
    pub(super) fn channels(self, config: &DecoderConfig) -> usize {
        match self {
            Self::AttentionIn | Self::MlpIn => config.hidden_size,
            Self::AttentionOut => config.n_kv_head * config.head_dim,
            Self::MlpOut => config.intermediate_size,
        }
    }

    /// The channel that each input of the layers is.
    pub(super) fn channel_of_input(self, config: &DecoderConfig) -> Vec<usize> {
        match self {
            Self::AttentionOut => {
                let (d, group) = (config.head_dim, config.n_head / config.n_kv_head);
                (0..config.n_head * d).map(|input| input / (group * d) * d + input % d).collect()
            }
            _ => (0..self.channels(config)).collect(),
        }
    }

    /// The layers, by their names within a block.
    pub(super) fn readers(self, decoder: &DecoderWeights) -> Vec<&'static str> {
        let names = decoder.names;
        match self {
            Self::AttentionIn => names.attention_in.to_vec(),
            Self::AttentionOut => vec![names.attention_out],
            Self::MlpIn => names.mlp_in.to_vec(),
            Self::MlpOut => vec![names.mlp_out],
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AttentionIn => "attention in",
            Self::AttentionOut => "attention out",
            Self::MlpIn => "MLP in",
            Self::MlpOut => "MLP out",
        })
    }
}
