//! Metadata to what `config.json` says of the same model.
//!
//! Source: ggml's `docs/gguf.md`; `convert_hf_to_gguf.py` of llama.cpp, which turns one into the other.

use serde_json::{Map, Value, json};

use super::header::clipped;
use super::{GgmlType, Gguf};
use crate::error::{Error, Result};

/// The tokens that may end a text: `tokenizer.ggml.eos_token_id` and the like.
pub(super) const ENDS: [&str; 3] = ["eos", "eot", "eom"];

/// The config of the model, for one of the families of `model/config`.
pub(super) fn of(header: &Gguf, bytes: &[u8]) -> Result<Value> {
    let family = header.family()?;
    let key = |name: &str| format!("{family}.{name}");
    let size = |name: &str| header.size(&key(name));
    let size_if_said = |name: &str| header.optional(&key(name), Gguf::size);
    let float_if_said = |name: &str| header.optional(&key(name), Gguf::float);
    if size_if_said("expert_count")?.is_some_and(|count| count > 0) {
        return Err(Error::format("mixtures of experts are not supported").hint("use a dense model"));
    }
    if header.optional("split.count", Gguf::size)?.is_some_and(|count| count > 1) {
        return Err(
            Error::format("it is one of several parts").hint("join them with llama.cpp's `llama-gguf-split --merge`")
        );
    }
    let context_len = size("context_length")?;
    if let Some(window) = size_if_said("attention.sliding_window")?.filter(|&window| window < context_len) {
        return Err(Error::format(format!("its layers attend to only {window} tokens"))
            .hint("load the model from safetensors, whose config.json says which layers do"));
    }
    if header.optional(&key("attention.causal"), Gguf::flag)? == Some(false) {
        return Err(Error::format("each of its tokens sees those after it too")
            .hint("such a model turns texts into vectors and continues none; load one that does"));
    }
    let (hidden_size, heads) = (size("embedding_length")?, size("attention.head_count")?);
    let head_dim = match size_if_said("attention.key_length")? {
        Some(head_dim) => head_dim,
        None if heads > 0 && hidden_size.is_multiple_of(heads) => hidden_size / heads,
        None => {
            return Err(Error::format(format!(
                "its {hidden_size} hidden numbers cannot be divided among {heads} heads"
            )));
        }
    };
    if let Some(turning) = size_if_said("rope.dimension_count")?.filter(|&turning| turning != head_dim) {
        return Err(Error::format(format!("only {turning} of a head's {head_dim} numbers are rotated")));
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
    set("num_key_value_heads", json!(size_if_said("attention.head_count_kv")?));
    set("head_dim", json!(head_dim));
    set("max_position_embeddings", json!(context_len));
    set("hidden_act", json!("silu"));
    set("rms_norm_eps", json!(header.float(&key("attention.layer_norm_rms_epsilon"))?));
    set("rope_theta", json!(float_if_said("rope.freq_base")?.unwrap_or(1e4)));
    // As llama.cpp reads them: the older name, and a kind that need not be said.
    let factor = match float_if_said("rope.scaling.factor")? {
        None => float_if_said("rope.scale_linear")?,
        factor => factor,
    };
    let kind = header.optional(&key("rope.scaling.type"), Gguf::text)?.unwrap_or("linear");
    match (kind, factor.filter(|factor| ![0.0, 1.0].contains(factor))) {
        ("none", _) | ("linear", None) => (),
        ("linear", factor) => set("rope_scaling", json!({"rope_type": "linear", "factor": factor})),
        _ => {
            return Err(Error::format(format!("its rotary angles are scaled as {} does", clipped(kind)))
                .hint("known are none and linear; load the model from safetensors, whose config.json may say more"));
        }
    }
    if let Some(factors) = divisors(header, bytes)? {
        if factor.is_some_and(|factor| ![0.0, 1.0].contains(&factor)) {
            return Err(Error::format("its rotary angles are scaled twice, by a number and by `rope_freqs.weight`"));
        }
        // Of the kinds that transformers has, the one with a number for each frequency; for texts of any length.
        set(
            "rope_scaling",
            json!({
                "rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0,
                "original_max_position_embeddings": context_len,
            }),
        );
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
    let ends = ENDS.map(|end| header.optional(&format!("tokenizer.ggml.{end}_token_id"), Gguf::size));
    let mut ends: Vec<usize> = ends.into_iter().filter_map(Result::transpose).collect::<Result<_>>()?;
    ends.dedup();
    set("eos_token_id", json!(ends));
    Ok(Value::Object(config))
}

/// Where the angles of Llama 3.1 and later are: what each frequency is divided by.
pub(crate) const DIVISORS: &str = "rope_freqs.weight";

/// More than any head has pairs of numbers.
const MOST_DIVISORS: usize = 1 << 12;

/// What rotary frequencies are divided by, one number for each pair of a head's numbers, if the file has them.
fn divisors(header: &Gguf, bytes: &[u8]) -> Result<Option<Vec<f32>>> {
    let Some(tensor) = header.tensors().get(DIVISORS) else { return Ok(None) };
    if tensor.kind != GgmlType::F32 || tensor.shape.len() != 1 || tensor.shape[0] > MOST_DIVISORS {
        let (kind, shape) = (tensor.kind.name(), &tensor.shape);
        return Err(Error::format(format!("`{DIVISORS}` is {kind} of shape {shape:?}, not a list of numbers in F32")));
    }
    let (numbers, _) = bytes[tensor.range.clone()].as_chunks::<4>();
    let numbers: Vec<f32> = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    match numbers.iter().find(|number| !(number.is_finite() && **number > 0.0)) {
        Some(number) => Err(Error::format(format!("`{DIVISORS}` has the number {number}"))),
        None => Ok(Some(numbers)),
    }
}
