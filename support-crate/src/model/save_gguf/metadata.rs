//! What a GGUF file says of a model besides its tensors.
//!
//! Source: ggml's `docs/gguf.md`; `set_gguf_parameters` of `LlamaModel` and `Qwen2Model` in llama.cpp's `conversion`.

use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::model::config::{plain_rope, token_ids};
use crate::model::{Activation, Architecture, DecoderConfig};
use crate::quant::GgufType;
use crate::source::{GgufValue, ModelFiles, vocabulary};

/// ggml's number for how its formats are laid out.
const QUANTIZATION_VERSION: i128 = 2;

/// The keys and values.
///
/// # Errors
/// Files that cannot be read; a model that has what no file can say.
pub(super) fn of(
    model_id: &str,
    files: &ModelFiles,
    (family, config): (&str, &DecoderConfig),
    kind: GgufType,
) -> Result<Vec<(String, GgufValue)>> {
    check(config)?;
    let (theta, factor) = plain_rope(config.architecture, &files.config)?;
    let text = |text: &str| GgufValue::Text(text.to_owned());
    let size = |size: usize| GgufValue::Whole(size as i128);
    let mut values = vec![
        ("general.architecture".to_owned(), text(family)),
        ("general.type".to_owned(), text("model")),
        // Of a path, which is nobody else's business, or of a repository: the last part.
        ("general.name".to_owned(), text(model_id.rsplit('/').next().unwrap_or(model_id))),
        ("general.file_type".to_owned(), GgufValue::Whole(kind.id().into())),
        ("general.quantization_version".to_owned(), GgufValue::Whole(QUANTIZATION_VERSION)),
    ];
    let mut set = |key: &str, value| values.push((format!("{family}.{key}"), value));
    set("vocab_size", size(config.vocab_size));
    set("context_length", size(config.context_len));
    set("embedding_length", size(config.hidden_size));
    set("block_count", size(config.n_layer));
    set("feed_forward_length", size(config.intermediate_size));
    set("attention.head_count", size(config.n_head));
    set("attention.head_count_kv", size(config.n_kv_head));
    set("attention.key_length", size(config.head_dim));
    set("attention.value_length", size(config.head_dim));
    set("attention.layer_norm_rms_epsilon", GgufValue::Float(config.norm_epsilon));
    set("rope.dimension_count", size(config.head_dim));
    set("rope.freq_base", GgufValue::Float(theta.into()));
    if factor != 1.0 {
        set("rope.scaling.type", text("linear"));
        set("rope.scaling.factor", GgufValue::Float(factor.into()));
    }
    let json: Value = serde_json::from_slice(&files.config.read_config()?).context(|| files.config.to_string())?;
    let begin = token_ids(&json["bos_token_id"]).first().copied();
    values.extend(vocabulary(files, config.vocab_size, begin, &config.eos_token_ids)?);
    Ok(values)
}

/// Refuses what llama.cpp would compute otherwise.
fn check(config: &DecoderConfig) -> Result<()> {
    let windows = config.layers.iter().filter_map(|layer| layer.window);
    if let Some(window) = windows.min().filter(|&window| window < config.context_len) {
        return Err(Error::input(format!("its layers attend to only {window} tokens, which a GGUF file cannot say"))
            .hint("for shorter texts, set `sliding_window` to null in config.json"));
    }
    if config.architecture == Architecture::Qwen3 && (config.biases.attention_in || config.biases.attention_out) {
        return Err(Error::input("its attention has biases, which llama.cpp's Qwen3 has not"));
    }
    if config.activation != Activation::Silu {
        return Err(Error::input("its feed-forward parts are gated by another function than silu")
            .hint("llama.cpp has only that one for this family"));
    }
    Ok(())
}
