//! What a GGUF file says of a model besides its weights.
//!
//! Source: ggml's `docs/gguf.md`; `set_gguf_parameters` and `generate_extra_tensors` of the families in llama.cpp's
//! `conversion`; `load_arch_hparams` of the same in its `src/models`, for what no key can say.

use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::model::config::{RopeScaling, rope, token_ids};
use crate::model::{Activation, DecoderConfig, Positions};
use crate::quant::GgufType;
use crate::source::{
    DIVISORS, GgufValue, ModelFiles, NO_ROPE_INTERVAL, gemma_scalar, has_window, vocabulary, window_period,
};

/// ggml's number for how its formats are laid out.
const QUANTIZATION_VERSION: i128 = 2;

/// Keys with their values, and numbers that are tensors of their own: what rotary frequencies are divided by.
pub(super) struct Metadata {
    pub values: Vec<(String, GgufValue)>,
    pub divisors: Vec<(&'static str, Vec<f32>)>,
}

/// All that a file of this `kind` says of a model of a family, by llama.cpp's name for it.
///
/// # Errors
/// Files that cannot be read; a model that has what no file can say.
pub(super) fn of(
    model_id: &str,
    files: &ModelFiles,
    (family, config): (&'static str, &DecoderConfig),
    kind: GgufType,
) -> Result<Metadata> {
    check(family, config)?;
    let json: Value = serde_json::from_slice(&files.config.read_config()?).context(|| files.config.to_string())?;
    let begin = token_ids(&json["bos_token_id"]).first().copied();
    let vocabulary = vocabulary(files, family, config.vocab_size, begin, &config.eos_token_ids)?;
    let general = [
        ("architecture", text(family)),
        ("type", text("model")),
        ("name", GgufValue::Text(name(model_id, family, &vocabulary))),
        ("file_type", GgufValue::Whole(kind.id().into())),
        ("quantization_version", GgufValue::Whole(QUANTIZATION_VERSION)),
    ];
    let values = general.into_iter().map(|(key, value)| (format!("general.{key}"), value)).collect();
    let mut keys = Keys { family, said: Metadata { values, divisors: Vec::new() } };
    keys.set("vocab_size", size(config.vocab_size));
    keys.set("embedding_length", size(config.hidden_size));
    keys.set("block_count", size(config.n_layer));
    keys.set("feed_forward_length", size(config.intermediate_size));
    keys.set("attention.head_count", size(config.n_head));
    match config.positions {
        Positions::Learned => {
            keys.set("context_length", size(config.context_len));
            keys.set("attention.layer_norm_epsilon", GgufValue::Float(config.norm_epsilon));
        }
        Positions::Rotary { .. } => {
            keys.set("attention.head_count_kv", size(config.n_kv_head));
            keys.set("attention.key_length", size(config.head_dim));
            keys.set("attention.value_length", size(config.head_dim));
            keys.set("attention.layer_norm_rms_epsilon", GgufValue::Float(config.norm_epsilon));
            keys.rotary(config, files)?;
        }
    }
    match family {
        "gemma2" | "gemma3" => keys.gemma(config)?,
        // llama.cpp computes no windows of this family, but has the key.
        "phi3" => keys.set("attention.sliding_window", size(config.layers[0].window.unwrap_or(0))),
        _ => (),
    }
    let mut said = keys.said;
    said.values.extend(vocabulary);
    Ok(said)
}

fn text(text: &str) -> GgufValue {
    GgufValue::Text(text.to_owned())
}

fn size(size: usize) -> GgufValue {
    GgufValue::Whole(size as i128)
}

/// Of a path, which is nobody else's business, or of a repository: the last part. By this name, and no key, llama.cpp knows
/// that blanks after the marks of Phi-3 belong to them; and a vocabulary without these marks it does not load then.
fn name(model_id: &str, family: &str, vocabulary: &[(String, GgufValue)]) -> String {
    const PHI3: [&str; 2] = ["phi-3", "phi3"];
    let name = model_id.rsplit('/').next().unwrap_or(model_id);
    let lower = name.to_ascii_lowercase();
    let has_pieces = vocabulary.iter().any(|(key, _)| key == "tokenizer.ggml.scores");
    match PHI3.into_iter().find(|known| lower.contains(known)) {
        None if family == "phi3" && has_pieces => format!("phi3 {name}"),
        Some(_) if family != "phi3" || !has_pieces => {
            PHI3.into_iter().fold(lower, |name, known| name.replace(known, "phi 3"))
        }
        _ => name.to_owned(),
    }
}

/// What has been said so far.
struct Keys {
    family: &'static str,
    said: Metadata,
}

impl Keys {
    fn set(&mut self, key: &str, value: GgufValue) {
        self.said.values.push((format!("{}.{key}", self.family), value));
    }

    /// Positions that are angles.
    fn rotary(&mut self, config: &DecoderConfig, files: &ModelFiles) -> Result<()> {
        let rope = rope(config, &files.config)?;
        let float = |number: f32| GgufValue::Float(number.into());
        self.set("context_length", size(rope.context_len));
        self.set("rope.dimension_count", size(rope.rotated));
        self.set("rope.freq_base", float(rope.theta));
        if let Some(theta) = rope.local_theta {
            self.set("rope.freq_base_swa", float(theta));
        }
        if let Some(trained) = rope.trained {
            self.set("rope.scaling.original_context_length", size(trained));
        }
        let [of_all, short_name, long_name] = DIVISORS;
        match rope.scaling {
            RopeScaling::Linear(factor) if factor != 1.0 => {
                self.set("rope.scaling.type", text("linear"));
                self.set("rope.scaling.factor", float(factor));
            }
            RopeScaling::Plain | RopeScaling::Linear(_) => (),
            RopeScaling::Divided(divisors) if self.family == "llama" => self.said.divisors.push((of_all, divisors)),
            // Numbers for texts of any length, as they are read from such a file.
            RopeScaling::ByLength { short, long, factor: 1.0 } if self.family == "llama" && short == long => {
                self.said.divisors.push((of_all, short));
            }
            RopeScaling::ByLength { short, long, factor } if self.family == "phi3" => {
                self.set("rope.scaling.attn_factor", float(factor));
                self.said.divisors.extend([(long_name, long), (short_name, short)]);
            }
            RopeScaling::Divided(_) | RopeScaling::ByLength { .. } => {
                return Err(Error::input(format!(
                    "its rotary angles are scaled in a way that llama.cpp does not have for models of type {}",
                    config.architecture
                ))
                .hint("it has `linear` for all, `llama3` for Llama, and `longrope` for Phi-3"));
            }
        }
        Ok(())
    }

    /// Windows and caps.
    fn gemma(&mut self, config: &DecoderConfig) -> Result<()> {
        let (family, layers) = (self.family, &config.layers);
        // Gemma 3 has other angles in layers that would have a window, even if that is switched off.
        let types: Vec<bool> = layers.iter().map(|layer| layer.window.is_some() || layer.rotation == Some(1)).collect();
        let window = layers.iter().find_map(|layer| layer.window);
        if types.contains(&true) {
            let is = |period: &usize| (0..layers.len()).all(|layer| types[layer] == has_window(layer, *period));
            let own = window_period(family);
            let period = [own].into_iter().chain(2..=layers.len()).chain([0]).find(is).ok_or_else(|| {
                Error::input("its layers without a window are not each so many-th one")
                    .hint("for this family, llama.cpp has one number for that and no list of layers")
            })?;
            if period != own {
                self.set("attention.sliding_window_pattern", size(period));
            }
        }
        // One as long as the longest text changes nothing, where there must be one.
        if types.contains(&true) || family == "gemma2" {
            self.set("attention.sliding_window", size(window.unwrap_or(config.context_len)));
        }
        let caps = [
            ("attn_logit_softcapping", config.soft_caps.attention),
            ("final_logit_softcapping", config.soft_caps.logits),
        ];
        for (key, cap) in caps {
            match cap {
                Some(cap) => self.set(key, GgufValue::Float(cap.into())),
                None if family == "gemma2" => {
                    return Err(Error::input(format!(
                        "it has no `{key}`, which llama.cpp has in every model of type gemma2"
                    )));
                }
                None => (),
            }
        }
        Ok(())
    }
}

/// Refuses what no key says, where llama.cpp would compute something else.
fn check(family: &str, config: &DecoderConfig) -> Result<()> {
    let windows = config.layers.iter().filter_map(|layer| layer.window);
    let has_key = ["gemma2", "gemma3", "phi3"].contains(&family);
    if let Some(window) = windows.min().filter(|&window| !has_key && window < config.context_len) {
        return Err(Error::input(format!("its layers attend to only {window} tokens, which a GGUF file cannot say"))
            .hint("for shorter texts, set `sliding_window` to null in config.json"));
    }
    let (activation, name) = match family {
        "gpt2" => (Activation::GeluNew, "gelu_new"),
        "gemma2" | "gemma3" => (Activation::GeluNew, "gelu_pytorch_tanh"),
        _ => (Activation::Silu, "silu"),
    };
    if config.activation != activation {
        return Err(Error::input(format!("its feed-forward parts have another function than {name}"))
            .hint("llama.cpp has only that one for this family"));
    }
    let is_gemma = family.starts_with("gemma");
    let scalar = match is_gemma {
        true => gemma_scalar(family, config.n_layer, (config.hidden_size, config.n_head, config.head_dim)),
        false => config.head_dim,
    };
    if config.query_pre_attn_scalar != scalar as f64 || config.scale_attn_by_inverse_layer_idx {
        return Err(Error::input(format!(
            "its attention scores are not divided by the square root of {scalar} alone, as llama.cpp does for this family"
        ))
        .hint("such a model can be saved with `save_pretrained`"));
    }
    // No key says which layers of SmolLM3 know no positions, and llama.cpp's have no biases.
    if family == "smollm3" {
        let is_other =
            |&layer: &usize| config.layers[layer].rotation.is_none() != (layer + 1).is_multiple_of(NO_ROPE_INTERVAL);
        if let Some(layer) = (0..config.n_layer).find(is_other) {
            let knows = if config.layers[layer].rotation.is_some() { "knows" } else { "does not know" };
            return Err(Error::input(format!("its layer {layer} {knows} positions, unlike the same one in llama.cpp"))
                .hint(format!("each {NO_ROPE_INTERVAL}th layer is without positions there, whatever a file says")));
        }
        if config.biases.attention_in || config.biases.mlp {
            return Err(Error::input("it has biases, which llama.cpp does not have for this family"));
        }
    }
    if family == "gemma2" && !config.tie_word_embeddings {
        return Err(Error::input("it has a head of its own, which llama.cpp does not have for this family"));
    }
    let width = config.n_head.checked_mul(config.head_dim);
    if family == "phi3" && width != Some(config.hidden_size) {
        return Err(Error::input(format!(
            "its {} heads of {} numbers are not as wide as its hidden state, as llama.cpp has it for this family",
            config.n_head, config.head_dim
        )));
    }
    Ok(())
}
