//! Metadata to what `config.json` says of the same model.
//!
//! Source: ggml's `docs/gguf.md`; `convert_hf_to_gguf.py` of llama.cpp, which turns one into the other.

use serde_json::{Map, Value, json};

use super::Gguf;
use super::header::clipped;
use crate::error::{Error, Result};

/// The config of the model, for one of the families of `model/config`.
pub(super) fn of(header: &Gguf) -> Result<Value> {
    let family = header.text("general.architecture")?;
    if !["llama", "qwen2"].contains(&family) {
        return Err(Error::format(format!("a GGUF model of the architecture {}", clipped(family)))
            .hint("read are llama (Mistral and SmolLM2 are called so too) and qwen2; others load from safetensors"));
    }
    let key = |name: &str| format!("{family}.{name}");
    let size = |name: &str| header.size(&key(name));
    if header.has(&key("expert_count")) && size("expert_count")? > 0 {
        return Err(Error::format("a mixture of experts").hint("models whose layers are all used can be read"));
    }
    if header.has("split.count") && header.size("split.count")? > 1 {
        return Err(
            Error::format("it is one part of several").hint("join them with llama.cpp's `llama-gguf-split --merge`")
        );
    }
    let window = key("attention.sliding_window");
    if header.has(&window) && header.size(&window)? < size("context_length")? {
        return Err(Error::format(format!("its layers see only {} tokens", header.size(&window)?))
            .hint("load the model from safetensors, whose config.json says which layers do"));
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
    // As llama.cpp reads them: the older name, and a kind that need not be said.
    let factor = ["rope.scaling.factor", "rope.scale_linear"].map(key).into_iter().find(|key| header.has(key));
    let factor = factor.map(|key| header.float(&key)).transpose()?.filter(|factor| ![0.0, 1.0].contains(factor));
    let kind = key("rope.scaling.type");
    let kind = if header.has(&kind) { header.text(&kind)? } else { "linear" };
    match (kind, factor) {
        ("none", _) | ("linear", None) => (),
        (kind, factor) => set("rope_scaling", json!({"rope_type": clipped_name(kind), "factor": factor})),
    }
    set("tie_word_embeddings", json!(!header.tensors().contains_key("output.weight")));
    // Of one layer and part, all are to have it: what is missing then is an error.
    let has_bias = |parts: &[&str]| {
        header.tensors().keys().any(|name| parts.iter().any(|part| name.ends_with(&format!(".{part}.bias"))))
    };
    // Qwen2's have one for the first three, and no word for it.
    if family == "llama" {
        set("attention_bias", json!(has_bias(&["attn_q", "attn_k", "attn_v", "attn_output"])));
        set("mlp_bias", json!(has_bias(&["ffn_gate", "ffn_up", "ffn_down"])));
    }
    let ends = ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"].into_iter().filter(|key| header.has(key));
    let mut ends = ends.map(|key| header.size(key)).collect::<Result<Vec<_>>>()?;
    ends.dedup();
    set("eos_token_id", json!(ends));
    Ok(Value::Object(config))
}

/// The name of a way to scale, of which none is long.
fn clipped_name(name: &str) -> String {
    name.chars().take(30).collect()
}
