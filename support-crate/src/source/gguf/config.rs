//! Metadata to what `config.json` says of the same model.
//!
//! Source: ggml's `docs/gguf.md`; `convert_hf_to_gguf.py` of llama.cpp, which turns one into the other.

use serde_json::{Map, Value, json};

use super::Gguf;
use crate::error::{Error, Result};

/// The config of the model, for one of the families of `model/config`.
pub(super) fn of(header: &Gguf) -> Result<Value> {
    let family = header.text("general.architecture")?;
    if !["llama", "qwen2"].contains(&family) {
        return Err(Error::format(format!("a GGUF model of the architecture `{family}`"))
            .hint("read are llama (Mistral and SmolLM2 are called so too) and qwen2; others load from safetensors"));
    }
    let key = |name: &str| format!("{family}.{name}");
    let size = |name: &str| header.size(&key(name));
    if header.has(&key("expert_count")) && size("expert_count")? > 0 {
        return Err(Error::format("a mixture of experts").hint("models whose layers are all used can be read"));
    }
    // Angles that were changed after training, for each pair of numbers of a head.
    if header.tensors().contains_key("rope_freqs.weight") {
        return Err(Error::format("its rotary angles are in a tensor (`rope_freqs.weight`), as Llama 3.1's")
            .hint("load the model from safetensors, whose config.json has them as numbers"));
    }
    let (hidden_size, heads) = (size("embedding_length")?, size("attention.head_count")?);
    let head_dim = match header.has(&key("attention.key_length")) {
        true => size("attention.key_length")?,
        false if heads > 0 && hidden_size.is_multiple_of(heads) => hidden_size / heads,
        false => return Err(Error::format(format!("{hidden_size} numbers for {heads} heads"))),
    };
    if header.has(&key("rope.dimension_count")) && size("rope.dimension_count")? != head_dim {
        return Err(Error::format(format!(
            "only {} of a head's {head_dim} numbers turn",
            size("rope.dimension_count")?
        )));
    }
    let embedding = header.tensors().get("token_embd.weight");
    let vocab_size = embedding.and_then(|tensor| tensor.shape.first());
    let mut config = Map::new();
    let mut set = |name: &str, value: Value| drop(config.insert(name.to_owned(), value));
    set("model_type", json!(family));
    set("vocab_size", json!(vocab_size.ok_or_else(|| Error::format("it has no tensor `token_embd.weight`"))?));
    set("hidden_size", json!(hidden_size));
    set("intermediate_size", json!(size("feed_forward_length")?));
    set("num_hidden_layers", json!(size("block_count")?));
    set("num_attention_heads", json!(heads));
    if header.has(&key("attention.head_count_kv")) {
        set("num_key_value_heads", json!(size("attention.head_count_kv")?));
    }
    set("head_dim", json!(head_dim));
    set("max_position_embeddings", json!(size("context_length")?));
    set("hidden_act", json!("silu"));
    set("rms_norm_eps", json!(header.float(&key("attention.layer_norm_rms_epsilon"))?));
    let base = if header.has(&key("rope.freq_base")) { header.float(&key("rope.freq_base"))? } else { 1e4 };
    set("rope_theta", json!(base));
    if header.has(&key("rope.scaling.type")) && header.text(&key("rope.scaling.type"))? != "none" {
        let (kind, factor) = (header.text(&key("rope.scaling.type"))?, header.float(&key("rope.scaling.factor"))?);
        set("rope_scaling", json!({"rope_type": kind, "factor": factor}));
    }
    set("tie_word_embeddings", json!(!header.tensors().contains_key("output.weight")));
    set("attention_bias", json!(header.tensors().contains_key("blk.0.attn_output.bias")));
    if header.has("tokenizer.ggml.eos_token_id") {
        set("eos_token_id", json!(header.size("tokenizer.ggml.eos_token_id")?));
    }
    Ok(Value::Object(config))
}
