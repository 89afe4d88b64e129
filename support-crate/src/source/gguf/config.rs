//! Metadata to what `config.json` says of the same model.
//!
//! Source: ggml's `docs/gguf.md`; `convert_hf_to_gguf.py` of llama.cpp, which turns one into the other.

use serde_json::{Map, Value, json};

use super::header::clipped;
use super::{GgmlType, Gguf, GgufValue};
use crate::error::{Error, Result};

/// The tokens that may end a text: `tokenizer.ggml.eos_token_id` and the like.
pub(super) const ENDS: [&str; 3] = ["eos", "eot", "eom"];

/// The config of the model, for one of the families of `model/config`.
pub(super) fn of(header: &Gguf, bytes: &[u8]) -> Result<Value> {
    let metadata = Metadata { header, family: header.family()? };
    if metadata.size_if_said("expert_count")?.is_some_and(|count| count > 0) {
        return Err(Error::format("mixtures of experts are not supported").hint("use a dense model"));
    }
    if header.optional("split.count", Gguf::size)?.is_some_and(|count| count > 1) {
        return Err(
            Error::format("it is one of several parts").hint("join them with llama.cpp's `llama-gguf-split --merge`")
        );
    }
    if header.optional(&metadata.key("attention.causal"), Gguf::flag)? == Some(false) {
        return Err(Error::format("each of its tokens sees those after it too")
            .hint("such a model turns texts into vectors and continues none; load one that does"));
    }
    let mut config = if metadata.family == "gpt2" { metadata.gpt2()? } else { metadata.of_llama_family(bytes)? };
    let embedding = header.tensors().get("token_embd.weight");
    let vocab_size = embedding.and_then(|tensor| tensor.shape.first());
    let vocab_size = vocab_size.ok_or_else(|| Error::format("it has no tensor `token_embd.weight`"))?;
    let of_all = [
        ("model_type", json!(if metadata.family == "gemma3" { "gemma3_text" } else { metadata.family })),
        ("vocab_size", json!(vocab_size)),
        ("tie_word_embeddings", json!(!header.tensors().contains_key("output.weight"))),
        ("eos_token_id", json!(ends(header)?)),
        ("bos_token_id", json!(header.optional("tokenizer.ggml.bos_token_id", Gguf::size)?)),
    ];
    config.extend(of_all.map(|(name, value)| (name.to_owned(), value)));
    Ok(Value::Object(config))
}

/// The tokens that end a text, by their roles.
pub(super) fn ends(header: &Gguf) -> Result<Vec<usize>> {
    let ends = ENDS.map(|end| header.optional(&format!("tokenizer.ggml.{end}_token_id"), Gguf::size));
    let mut ends: Vec<usize> = ends.into_iter().filter_map(Result::transpose).collect::<Result<_>>()?;
    ends.dedup();
    Ok(ends)
}

/// The keys of a model's family.
struct Metadata<'a> {
    header: &'a Gguf,
    family: &'a str,
}

impl Metadata<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.family)
    }

    fn size(&self, name: &str) -> Result<usize> {
        self.header.size(&self.key(name))
    }

    fn size_if_said(&self, name: &str) -> Result<Option<usize>> {
        self.header.optional(&self.key(name), Gguf::size)
    }

    fn float_if_said(&self, name: &str) -> Result<Option<f64>> {
        self.header.optional(&self.key(name), Gguf::float)
    }

    fn gpt2(&self) -> Result<Map<String, Value>> {
        let keys = [
            ("n_positions", json!(self.size("context_length")?)),
            ("n_embd", json!(self.size("embedding_length")?)),
            ("n_inner", json!(self.size("feed_forward_length")?)),
            ("n_layer", json!(self.size("block_count")?)),
            ("n_head", json!(self.size("attention.head_count")?)),
            ("layer_norm_epsilon", json!(self.header.float(&self.key("attention.layer_norm_epsilon"))?)),
        ];
        Ok(keys.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
    }

    /// Llama, and what differs from it in some respects.
    fn of_llama_family(&self, bytes: &[u8]) -> Result<Map<String, Value>> {
        let context_len = self.size("context_length")?;
        let (hidden_size, heads) = (self.size("embedding_length")?, self.size("attention.head_count")?);
        let head_dim = match self.size_if_said("attention.key_length")? {
            Some(head_dim) => head_dim,
            None if heads > 0 && hidden_size.is_multiple_of(heads) => hidden_size / heads,
            None => {
                return Err(Error::format(format!(
                    "its {hidden_size} hidden numbers cannot be divided among {heads} heads"
                )));
            }
        };
        let mut config = Map::new();
        let mut set = |name: &str, value: Value| drop(config.insert(name.to_owned(), value));
        set("hidden_size", json!(hidden_size));
        set("intermediate_size", json!(self.size("feed_forward_length")?));
        set("num_hidden_layers", json!(self.size("block_count")?));
        set("num_attention_heads", json!(heads));
        set("num_key_value_heads", json!(self.size_if_said("attention.head_count_kv")?));
        set("head_dim", json!(head_dim));
        set("max_position_embeddings", json!(context_len));
        set("hidden_act", json!("silu"));
        set("rms_norm_eps", json!(self.header.float(&self.key("attention.layer_norm_rms_epsilon"))?));
        set("rope_theta", json!(self.float_if_said("rope.freq_base")?.unwrap_or(1e4)));
        // Of one layer and part, all are to have it: what is missing then is an error.
        let tensors = self.header.tensors();
        let has_bias = |parts: &[&str]| {
            tensors.keys().any(|name| parts.iter().any(|part| name.ends_with(&format!(".{part}.bias"))))
        };
        // Qwen2's have one for the first three, and no word for it.
        if ["llama", "smollm3"].contains(&self.family) {
            set("attention_bias", json!(has_bias(&["attn_q", "attn_k", "attn_v", "attn_output"])));
            set("mlp_bias", json!(has_bias(&["ffn_gate", "ffn_up", "ffn_down"])));
        }
        if self.family == "smollm3" {
            set("no_rope_layer_interval", json!(NO_ROPE_INTERVAL));
        }
        let window = self.size_if_said("attention.sliding_window")?.filter(|&window| window > 0);
        match (self.family, window) {
            ("phi3", window) => {
                let rotated = self.size_if_said("rope.dimension_count")?.unwrap_or(head_dim);
                set("sliding_window", json!(window));
                set(
                    "original_max_position_embeddings",
                    json!(self.size_if_said("rope.scaling.original_context_length")?),
                );
                set("partial_rotary_factor", json!(rotated as f64 / head_dim as f64));
            }
            ("gemma2" | "gemma3", _) => config.extend(self.gemma(hidden_size, heads, head_dim)?),
            (_, Some(window)) if window < context_len => {
                return Err(Error::format(format!("its layers attend to only {window} tokens"))
                    .hint("load the model from safetensors, whose config.json says which layers do"));
            }
            _ => (),
        }
        let turning = self.size_if_said("rope.dimension_count")?.filter(|_| self.family != "phi3");
        if let Some(turning) = turning.filter(|&turning| turning != head_dim) {
            return Err(Error::format(format!("only {turning} of a head's {head_dim} numbers are rotated")));
        }
        if let Some(scaling) = self.rope_scaling(bytes, context_len)? {
            config.insert("rope_scaling".to_owned(), scaling);
        }
        Ok(config)
    }

    /// What Gemma has besides. Source: `gemma2.cpp` and `gemma3.cpp` of llama.cpp.
    fn gemma(&self, hidden_size: usize, heads: usize, head_dim: usize) -> Result<Map<String, Value>> {
        let (layers, is_second) = (self.size("block_count")?, self.family == "gemma2");
        let window = self.size_if_said("attention.sliding_window")?.or(is_second.then_some(4096));
        let window = window.filter(|&window| window > 0);
        let scalar = gemma_scalar(self.family, layers, (hidden_size, heads, head_dim));
        let types = self.layers_with_window(window_period(self.family), layers)?.into_iter();
        let types = types.map(|has| if has && window.is_some() { "sliding_attention" } else { "full_attention" });
        let mut config = Map::new();
        let mut set = |name: &str, value: Value| drop(config.insert(name.to_owned(), value));
        set("hidden_activation", json!("gelu_pytorch_tanh"));
        set("query_pre_attn_scalar", json!(scalar));
        set("sliding_window", json!(window));
        set("layer_types", types.collect());
        // Files from before there were keys for them have Gemma 2's own.
        let cap = |name: &str, own: f64| self.float_if_said(name).map(|said| json!(said.or(is_second.then_some(own))));
        set("attn_logit_softcapping", cap("attn_logit_softcapping", 50.0)?);
        set("final_logit_softcapping", cap("final_logit_softcapping", 30.0)?);
        if let Some(base) = self.float_if_said("rope.freq_base_swa")? {
            set("rope_local_base_freq", json!(base));
        }
        Ok(config)
    }

    /// Which layers have a window: all but each `period`-th, unless the file has another number or a list.
    fn layers_with_window(&self, period: usize, layers: usize) -> Result<Vec<bool>> {
        let key = self.key("attention.sliding_window_pattern");
        let period = match self.header.metadata().get(&key) {
            Some(GgufValue::Wholes(list)) if list.len() == layers => {
                return Ok(list.iter().map(|&has| has != 0).collect());
            }
            Some(GgufValue::Wholes(list)) => {
                return Err(Error::format(format!("metadata `{key}` has {} entries for {layers} layers", list.len())));
            }
            Some(_) => self.header.size(&key)?,
            None => period,
        };
        if layers > MOST_LAYERS {
            return Err(Error::format(format!("it has {layers} layers, more than any model has")));
        }
        Ok((0..layers).map(|layer| has_window(layer, period)).collect())
    }

    /// How rotary angles are scaled, by transformers' names.
    fn rope_scaling(&self, bytes: &[u8], context_len: usize) -> Result<Option<Value>> {
        // As llama.cpp reads them: the older name, and a kind that need not be said.
        let factor = match self.float_if_said("rope.scaling.factor")? {
            None => self.float_if_said("rope.scale_linear")?,
            factor => factor,
        };
        let factor = factor.filter(|factor| ![0.0, 1.0].contains(factor));
        let by_numbers = |name: &str| divisors(self.header, bytes, name);
        let (of_all, short, long) = (by_numbers(DIVISORS[0])?, by_numbers(DIVISORS[1])?, by_numbers(DIVISORS[2])?);
        let kind = self.header.optional(&self.key("rope.scaling.type"), Gguf::text)?.unwrap_or("linear");
        let scaling = match (kind, factor) {
            ("none", _) | ("linear", None) => None,
            ("linear", factor) => Some(json!({"rope_type": "linear", "factor": factor})),
            ("longrope", None) if short.is_some() => None,
            _ => {
                return Err(Error::format(format!("its rotary angles are scaled as {} does", clipped(kind))).hint(
                    "known are none, linear, and a number for each; load the model from safetensors, whose config.json may say more",
                ));
            }
        };
        let attention = self.float_if_said("rope.scaling.attn_factor")?.unwrap_or(1.0);
        if attention != 1.0 && short.is_none() && long.is_none() {
            let key = self.key("rope.scaling.attn_factor");
            return Err(Error::format(format!("metadata `{key}` is {attention}, without the factors of longer texts"))
                .hint("load the model from safetensors, whose config.json may say more"));
        }
        // Of the kinds that transformers has, the one with a number for each frequency.
        let (short, long, trained, attention) = match (of_all, short, long) {
            (None, None, None) => return Ok(scaling),
            // For texts of any length.
            (Some(all), None, None) => (all.clone(), all, context_len, 1.0),
            (None, Some(short), Some(long)) => {
                (short, long, self.size("rope.scaling.original_context_length")?, attention)
            }
            (None, ..) => {
                return Err(Error::format(format!("it has one of `{}` without the other", DIVISORS[1..].join("`, `"))));
            }
            (Some(_), ..) => return Err(scaled_twice()),
        };
        if factor.is_some() {
            return Err(scaled_twice());
        }
        if self.family == "phi3" {
            // transformers takes these three and no more, with the length beside them, and computes the factor.
            let (longest, trained) = (context_len as f64, trained as f64);
            let computed = if longest > trained { (1.0 + (longest / trained).ln() / trained.ln()).sqrt() } else { 1.0 };
            let mut scaling = json!({"type": "longrope", "short_factor": short, "long_factor": long});
            if (attention / computed - 1.0).abs() > 1e-4 {
                scaling["attention_factor"] = json!(attention);
            }
            return Ok(Some(scaling));
        }
        Ok(Some(json!({
            "rope_type": "longrope", "short_factor": short, "long_factor": long, "attention_factor": attention,
            "original_max_position_embeddings": trained,
        })))
    }
}

/// Each so many-th layer of SmolLM3 knows no positions, which no key says: llama.cpp knows it of the family.
pub(crate) const NO_ROPE_INTERVAL: usize = 4;

/// Of how many layers the last one has no window, in a file that does not say so.
pub(crate) fn window_period(family: &str) -> usize {
    if family == "gemma2" { 2 } else { 6 }
}

/// Whether a layer has a window if each `period`-th has none.
pub(crate) fn has_window(layer: usize, period: usize) -> bool {
    period == 0 || !(layer + 1).is_multiple_of(period)
}

/// By the root of which number a Gemma divides scores, which no key says: llama.cpp knows from the number of layers that
/// a model is the largest one, which has another.
pub(crate) fn gemma_scalar(
    family: &str,
    layers: usize,
    (hidden_size, heads, head_dim): (usize, usize, usize),
) -> usize {
    let is_largest = layers == if family == "gemma2" { 46 } else { 62 };
    if is_largest && heads > 0 { hidden_size / heads } else { head_dim }
}

fn scaled_twice() -> Error {
    Error::format("its rotary angles are scaled twice, by one number and by one for each, or by several for each")
}

/// Where the angles of Llama 3.1 and later are: what each frequency is divided by; and those of Phi-3, for texts no longer
/// than those of the training, and for longer ones.
pub(crate) const DIVISORS: [&str; 3] = ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"];

/// More than any model has.
const MOST_LAYERS: usize = 1 << 16;

/// More than any head has pairs of numbers.
const MOST_DIVISORS: usize = 1 << 12;

/// What rotary frequencies are divided by, one number for each pair of a head's numbers, if the file has them.
fn divisors(header: &Gguf, bytes: &[u8], name: &str) -> Result<Option<Vec<f32>>> {
    let Some(tensor) = header.tensors().get(name) else { return Ok(None) };
    if tensor.kind != GgmlType::F32 || tensor.shape.len() != 1 || tensor.shape[0] > MOST_DIVISORS {
        let (kind, shape) = (tensor.kind.name(), &tensor.shape);
        return Err(Error::format(format!("`{name}` is {kind} of shape {shape:?}, not a list of numbers in F32")));
    }
    let (numbers, _) = bytes[tensor.range.clone()].as_chunks::<4>();
    let numbers: Vec<f32> = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    match numbers.iter().find(|number| !(number.is_finite() && **number > 0.0)) {
        Some(number) => Err(Error::format(format!("`{name}` has the number {number}"))),
        None => Ok(Some(numbers)),
    }
}
