//! A model of the Llama family as plain vectors.

use std::collections::HashMap;

use quantlab::error::{Error, Result};
use quantlab::model::{Activation, Biases, DecoderConfig, Loaded, NormKind, Positions, Rotation};

/// The sizes of a model, and the two numbers that its operations need besides weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// V, the number of different tokens.
    pub vocab_size: usize,
    /// C, the width of the hidden state.
    pub hidden_size: usize,
    /// I, the width inside the feed-forward part.
    pub intermediate_size: usize,
    /// Blocks.
    pub n_layer: usize,
    /// H, heads of queries.
    pub n_head: usize,
    /// J, heads of keys and values; divides H.
    pub n_kv_head: usize,
    /// D, the width of a head.
    pub head_dim: usize,
    /// Added to the mean square in norms.
    pub epsilon: f32,
    /// The base of the rotations' angles.
    pub rope_base: f32,
}

/// The weights of a block. A matrix is (out, in) row by row, as one vector.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Block {
    /// The scale of the norm before attention: (C).
    pub attention_norm: Vec<f32>,
    /// Makes queries: (H D, C).
    pub q: Vec<f32>,
    /// Makes keys: (J D, C).
    pub k: Vec<f32>,
    /// Makes values: (J D, C).
    pub v: Vec<f32>,
    /// Attention's output matrix: (C, H D).
    pub o: Vec<f32>,
    /// The scale of the norm before the feed-forward part: (C).
    pub mlp_norm: Vec<f32>,
    /// Makes what goes through SiLU: (I, C).
    pub gate: Vec<f32>,
    /// Makes what that is multiplied by: (I, C).
    pub up: Vec<f32>,
    /// The feed-forward part's output matrix: (C, I).
    pub down: Vec<f32>,
}

/// A whole model.
#[derive(Debug, Clone, PartialEq)]
pub struct Llama {
    /// Its sizes.
    pub shape: Shape,
    /// A row for each token: (V, C).
    pub embedding: Vec<f32>,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
    /// The scale of the norm before the head: (C).
    pub final_norm: Vec<f32>,
    /// Makes logits: (V, C); `None` if the head is tied, which means that the embedding is used.
    pub head: Option<Vec<f32>>,
}

/// Keys and values of the tokens so far, for each block.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cache {
    /// For each block, (tokens, J D) row by row: keys, rotated.
    pub keys: Vec<Vec<f32>>,
    /// For each block, (tokens, J D) row by row.
    pub values: Vec<Vec<f32>>,
    /// How many tokens it holds.
    pub tokens: usize,
}

/// How the next token is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// What logits are divided by; 0 for the likeliest token.
    pub temperature: f64,
    /// Draw among this many of the likeliest tokens, and those as likely as the last of them; `None` for all.
    pub top_k: Option<usize>,
    /// Draw among the fewest tokens, the likeliest first, whose probabilities add up to at least this; 1 for all.
    pub top_p: f64,
}

impl Cache {
    /// A cache without tokens, for this many blocks.
    pub fn new(n_layer: usize) -> Self {
        Self { keys: vec![Vec::new(); n_layer], values: vec![Vec::new(); n_layer], tokens: 0 }
    }
}

impl Llama {
    /// Copies the weights of a model.
    ///
    /// # Errors
    /// A model that is not of the Llama family, or differs from the first Llama in what a block computes; one that is
    /// quantized; one that was not loaded from files.
    pub fn of(loaded: &Loaded) -> Result<Self> {
        let files = loaded.files.as_ref().ok_or_else(|| Error::input("the model was not loaded from files"))?;
        let shape = Shape::of(&DecoderConfig::read(&files.config)?)
            .map_err(|error| error.context(format!("`{}` cannot be computed here", loaded.model_id)))?;
        let weights = loaded.plain_weights()?;
        let mut weights: HashMap<String, Vec<f32>> =
            weights.into_iter().map(|weight| (weight.name, weight.values)).collect();
        let mut take = |name: String| {
            weights.remove(&name).ok_or_else(|| Error::input(format!("`{}` has no {name}", loaded.model_id)))
        };
        let embedding = take("model.embed_tokens.weight".to_owned())?;
        let mut block = |layer: usize| {
            let mut part = |name: &str| take(format!("model.layers.{layer}.{name}.weight"));
            Ok(Block {
                attention_norm: part("input_layernorm")?,
                q: part("self_attn.q_proj")?,
                k: part("self_attn.k_proj")?,
                v: part("self_attn.v_proj")?,
                o: part("self_attn.o_proj")?,
                mlp_norm: part("post_attention_layernorm")?,
                gate: part("mlp.gate_proj")?,
                up: part("mlp.up_proj")?,
                down: part("mlp.down_proj")?,
            })
        };
        let blocks = (0..shape.n_layer).map(&mut block).collect::<Result<_>>()?;
        let final_norm = take("model.norm.weight".to_owned())?;
        Ok(Self { shape, embedding, blocks, final_norm, head: take("lm_head.weight".to_owned()).ok() })
    }

    /// Weights, with a tied head counted once.
    pub fn num_weights(&self) -> usize {
        let of_block = |block: &Block| {
            let Block { attention_norm, q, k, v, o, mlp_norm, gate, up, down } = block;
            [attention_norm, q, k, v, o, mlp_norm, gate, up, down].iter().map(|part| part.len()).sum::<usize>()
        };
        let head = self.head.as_ref().map_or(0, Vec::len);
        self.embedding.len() + self.final_norm.len() + head + self.blocks.iter().map(of_block).sum::<usize>()
    }
}

impl Shape {
    fn of(config: &DecoderConfig) -> Result<Self> {
        let refused = |what: &str| Err(Error::input(what).hint("use `smollm2:float32` or `random:smollm2-135m`"));
        let Positions::Rotary { rotations } = &config.positions else {
            return refused("its positions are learned, not rotations");
        };
        let d = config.head_dim;
        let [Rotation { frequencies, factor: 1.0 }] = &rotations[..] else {
            return refused("its rotations are of several kinds");
        };
        // The last frequency is base^(-(d - 2) / d). A base is a whole number.
        let last = f64::from(frequencies.last().copied().unwrap_or(1.0));
        let rope_base = last.powf(-(d as f64) / (d as f64 - 2.0)).round() as f32;
        let is_plain = |(i, frequency): (usize, &f32)| {
            let plain = rope_base.powf(-2.0 * i as f32 / d as f32);
            (frequency - plain).abs() <= 1e-5 * plain
        };
        if 2 * frequencies.len() != d || !frequencies.iter().enumerate().all(is_plain) {
            return refused("its rotations were changed for longer texts, or turn parts of a head only");
        }
        let no_biases = Biases { attention_in: false, attention_out: false, mlp: false };
        let is_llama = config.norm == NormKind::Rms
            && config.gated
            && config.activation == Activation::Silu
            && config.biases == no_biases
            && config.qk_norm.is_none()
            && !config.parallel_residual
            && [config.embedding_scale, config.residual_multiplier, config.logits_scaling] == [1.0; 3]
            && config.query_pre_attn_scalar == d as f64
            && config.soft_caps == Default::default()
            && config.layers.iter().all(|layer| layer.window.is_none() && layer.rotation == Some(0));
        if !is_llama {
            return refused("its blocks compute something else than Llama's");
        }
        Ok(Self {
            vocab_size: config.vocab_size,
            hidden_size: config.hidden_size,
            intermediate_size: config.intermediate_size,
            n_layer: config.n_layer,
            n_head: config.n_head,
            n_kv_head: config.n_kv_head,
            head_dim: d,
            epsilon: config.norm_epsilon as f32,
            rope_base,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{LoadOptions, QkNorm, load_model};

    #[test]
    fn a_llama_is_copied_and_a_gpt2_is_refused() {
        let load = |id| load_model(&[id], &LoadOptions::default()).unwrap();
        let loaded = load("random:smollm2-135m");
        let model = Llama::of(&loaded).unwrap();
        assert_eq!(model.num_weights(), loaded.model.info().num_parameters);
        let Shape { n_head, n_kv_head, head_dim, rope_base, epsilon, .. } = model.shape;
        assert_eq!((n_head, n_kv_head, head_dim, rope_base, epsilon), (9, 3, 64, 1e5, 1e-5));
        let error = Llama::of(&load("embedded")).unwrap_err().to_string();
        assert!(error.contains("`embedded` cannot be computed here") && error.contains("learned"), "{error}");
    }

    #[test]
    fn a_family_that_adds_something_to_llama_is_refused() {
        let loaded = load_model(&["random:smollm2-135m"], &LoadOptions::default()).unwrap();
        let config = DecoderConfig::read(&loaded.files.as_ref().unwrap().config).unwrap();
        assert!(Shape::of(&config).is_ok());
        for other in [
            DecoderConfig { qk_norm: Some(QkNorm::OneForAllHeads), ..config.clone() },
            DecoderConfig { parallel_residual: true, ..config.clone() },
            DecoderConfig { residual_multiplier: 0.5, ..config.clone() },
            DecoderConfig { logits_scaling: 8.0, ..config },
        ] {
            assert!(Shape::of(&other).unwrap_err().to_string().contains("something else than Llama's"), "{other:?}");
        }
    }
}
