//! `config.json` of a family that candle-transformers computes.
//!
//! candle-transformers reads some of the keys and ignores the rest, divides and indexes by what it reads, and needs
//! some keys for which transformers has defaults. Here every key that changes the result is honoured, put into the
//! weights, or refused.

use candle_nn::VarBuilder;
use serde_json::{Map, Value};

use super::table::{Call, Family, Window};
use crate::error::{Context, Error, Result};
use crate::model::config::{add_defaults, sliding_layers, token_ids};

/// A checked config.
pub(in crate::model) struct FamilyConfig {
    pub(super) family: &'static Family,
    /// What candle-transformers reads.
    keys: Map<String, Value>,
    pub vocab_size: usize,
    /// The longest sequence that is computed exactly, in tokens.
    pub context_len: usize,
    pub hidden_size: usize,
    pub n_layer: usize,
    pub n_head: usize,
    pub n_kv_head: usize,
    pub head_dim: usize,
    /// How many numbers of a head are rotated by its position.
    pub rotary_dim: usize,
    /// The most tokens that go into an empty model at once.
    pub prefill: usize,
    pub tie_word_embeddings: bool,
    pub eos_token_ids: Vec<u32>,
}

impl FamilyConfig {
    /// # Errors
    /// A key that is missing or out of range, or a setting that candle-transformers does not compute.
    pub(super) fn new(family: &'static Family, mut keys: Map<String, Value>) -> Result<Self> {
        if keys.get("quantization_config").is_some_and(|value| !value.is_null()) {
            return Err(Error::format(format!(
                "quantized checkpoints of type {} are not supported",
                family.architecture
            ))
            .hint("candle-transformers computes this family only in full precision; use the original checkpoint"));
        }
        add_defaults(family.architecture, &mut keys);
        flatten_rope(&mut keys)?;
        check_fixed(family, &keys)?;
        let n_head = size(&keys, "num_attention_heads", 1 << 16)?;
        if keys.get("num_key_value_heads").is_none_or(Value::is_null) {
            keys.insert("num_key_value_heads".to_owned(), n_head.into());
        }
        let n_kv_head = size(&keys, "num_key_value_heads", 1 << 16)?;
        if !n_head.is_multiple_of(n_kv_head) {
            return Err(Error::format(format!("{n_head} heads cannot share {n_kv_head} key-value heads evenly")));
        }
        let hidden_size = size(&keys, "hidden_size", 1 << 20)?;
        let head_dim = head_dim(family, &keys, hidden_size, n_head)?;
        let rotary_dim = (head_dim as f64 * number(&keys, "partial_rotary_factor")?.unwrap_or(1.0)) as usize;
        if rotary_dim == 0 || rotary_dim > head_dim || !rotary_dim.is_multiple_of(2) {
            return Err(Error::format(format!(
                "rotary positions need an even part of a head's {head_dim} numbers, not {rotary_dim}"
            )));
        }
        for (key, least, most) in [
            ("rope_theta", f64::MIN_POSITIVE, f64::from(f32::MAX)),
            ("rope_local_base_freq", f64::MIN_POSITIVE, f64::from(f32::MAX)),
            ("rms_norm_eps", 0.0, 1.0),
            ("layer_norm_eps", 0.0, 1.0),
            ("attn_logit_softcapping", f64::MIN_POSITIVE, f64::from(f32::MAX)),
            ("final_logit_softcapping", f64::MIN_POSITIVE, f64::from(f32::MAX)),
        ] {
            if let Some(value) = number(&keys, key)?.filter(|value| !(least..=most).contains(value)) {
                return Err(Error::format(format!("`{key}` is {value}; it must lie between {least} and {most}")));
            }
        }
        size(&keys, "intermediate_size", 1 << 22)?;
        let context_len = size(&keys, "max_position_embeddings", 1 << 24)?;
        let mut config = Self {
            family,
            vocab_size: size(&keys, "vocab_size", 1 << 24)?,
            context_len,
            hidden_size,
            n_layer: size(&keys, "num_hidden_layers", 1 << 12)?,
            n_head,
            n_kv_head,
            head_dim,
            rotary_dim,
            prefill: context_len,
            tie_word_embeddings: keys.get("tie_word_embeddings").and_then(Value::as_bool).unwrap_or(false),
            eos_token_ids: keys.get("eos_token_id").map_or_else(Vec::new, token_ids),
            keys,
        };
        config.apply_window()?;
        (family.adapt)(&mut config)?;
        // Lists of ids could not be read, and none of these keys is needed.
        for key in ["bos_token_id", "eos_token_id", "pad_token_id"] {
            config.keys.insert(key.to_owned(), Value::Null);
        }
        Ok(config)
    }

    /// The model over the tensors of `vb`, for sequences of at most `capacity` tokens.
    pub(super) fn build(&self, capacity: usize, vb: VarBuilder<'_>) -> Result<Call> {
        let mut keys = self.keys.clone();
        // This is the length of the tables of angles and, in some families, of the cache.
        keys.insert("max_position_embeddings".to_owned(), capacity.into());
        // Gemma 3 allocates as much as its window; a longer one than the cache hides nothing.
        if let Some(window) = keys.get("sliding_window").and_then(Value::as_u64) {
            keys.insert("sliding_window".to_owned(), window.min(capacity as u64).into());
        }
        (self.family.build)(keys, vb).context(|| format!("a model of type {}", self.family.architecture))
    }

    /// Whether texts as long as `config.json` allows are computed.
    pub(super) fn has_whole_context(&self) -> bool {
        self.keys.get("max_position_embeddings") == Some(&self.context_len.into())
    }

    fn apply_window(&mut self) -> Result<()> {
        let sliding = match self.keys.get("layer_types") {
            None | Some(Value::Null) => None,
            Some(types) => Some(sliding_layers(types, self.n_layer)?),
        };
        let window = match self.keys.get("sliding_window") {
            None | Some(Value::Null) => None,
            Some(_) => Some(size(&self.keys, "sliding_window", usize::MAX)?),
        };
        let is_used = sliding.as_ref().is_none_or(|layers| layers.contains(&true));
        match (self.family.window, window) {
            (Window::Never, _) if sliding.is_some_and(|layers| layers.contains(&true)) => {
                return Err(not_computed("layer_types", "sliding_attention", "full_attention"));
            }
            (Window::LimitsContext, Some(window)) if is_used => self.context_len = self.context_len.min(window),
            (Window::LimitsPrefill, Some(window)) => self.prefill = window,
            (Window::LimitsPrefill, None) => return Err(Error::format("there is no `sliding_window`")),
            _ => {}
        }
        self.prefill = self.prefill.min(self.context_len);
        Ok(())
    }
}

/// Puts what transformers 5 calls `rope_parameters` under the older names; scaling that has no effect is left out.
fn flatten_rope(keys: &mut Map<String, Value>) -> Result<()> {
    let is_said = |value: &Value| !value.is_null() && value.as_object().is_none_or(|keys| !keys.is_empty());
    let mut scaling = keys.remove("rope_scaling").filter(is_said);
    if let Some(whole @ Value::Object(_)) = keys.remove("rope_parameters") {
        // One for all layers, or one for each sort of them.
        let [full, sliding] = ["full_attention", "sliding_attention"].map(|layers| whole.get(layers));
        let full = full.unwrap_or(&whole);
        for (part, from, to) in [
            (Some(full), "rope_theta", "rope_theta"),
            (Some(full), "partial_rotary_factor", "partial_rotary_factor"),
            (sliding, "rope_theta", "rope_local_base_freq"),
        ] {
            if let Some(value) = part.and_then(|part| part.get(from)) {
                keys.insert(to.to_owned(), value.clone());
            }
        }
        let in_parts = [Some(full), sliding].into_iter().flatten().find(|part| is_scaled(part));
        scaling = scaling.or_else(|| in_parts.cloned());
    }
    if let Some(scaling) = scaling.filter(is_scaled) {
        let is_llama = keys.get("model_type").and_then(Value::as_str) == Some("llama");
        if !is_llama || rope_type(&scaling) != "llama3" {
            return Err(not_computed("rope_scaling", rope_type(&scaling), "default"));
        }
        let part = |name| number(scaling.as_object().unwrap_or(&*keys), name);
        let (low, high) = (part("low_freq_factor")?, part("high_freq_factor")?);
        let positive = [part("factor")?, low, part("original_max_position_embeddings")?];
        if !positive.iter().all(|value| value.is_some_and(|value| value > 0.0)) || high <= low {
            return Err(Error::format(
                "`rope_scaling` of type llama3 needs positive factors, the high one above the low",
            ));
        }
        keys.insert("rope_scaling".to_owned(), scaling);
    }
    Ok(())
}

fn rope_type(scaling: &Value) -> &str {
    ["rope_type", "type"].into_iter().find_map(|name| scaling.get(name)?.as_str()).unwrap_or("default")
}

fn is_scaled(scaling: &Value) -> bool {
    rope_type(scaling) != "default"
}

fn check_fixed(family: &Family, keys: &Map<String, Value>) -> Result<()> {
    for (key, computed) in family.fixed {
        let Some(value) = keys.get(*key).filter(|value| !value.is_null()) else { continue };
        let expected: Value = serde_json::from_str(computed)?;
        // 1 and 1.0 are the same.
        if *value != expected && (value.as_f64().is_none() || value.as_f64() != expected.as_f64()) {
            return Err(not_computed(key, value, computed));
        }
    }
    Ok(())
}

fn not_computed(key: &str, value: impl std::fmt::Display, computed: &str) -> Error {
    Error::format(format!("`{key}` is {value}; candle-transformers computes this family only with {computed}"))
        .hint("docs/families.md lists what it does not compute")
}

fn head_dim(family: &Family, keys: &Map<String, Value>, hidden_size: usize, n_head: usize) -> Result<usize> {
    let named = match keys.get("head_dim") {
        None | Some(Value::Null) => None,
        Some(_) => Some(size(keys, "head_dim", 1 << 16)?),
    };
    match named {
        Some(head_dim) if family.has_head_dim => Ok(head_dim),
        _ if !hidden_size.is_multiple_of(n_head) => Err(Error::format(format!(
            "`hidden_size` {hidden_size} cannot be divided among `num_attention_heads` {n_head} heads"
        ))),
        Some(head_dim) if head_dim != hidden_size / n_head => {
            Err(not_computed("head_dim", head_dim, &(hidden_size / n_head).to_string()))
        }
        _ => Ok(hidden_size / n_head),
    }
}

/// A count of things, of which there must be at least one.
fn size(keys: &Map<String, Value>, key: &str, most: usize) -> Result<usize> {
    let value = keys.get(key).ok_or_else(|| Error::format(format!("missing field `{key}`")))?;
    let size = value.as_u64().and_then(|size| usize::try_from(size).ok()).filter(|size| (1..=most).contains(size));
    size.ok_or_else(|| Error::format(format!("`{key}` is {value}; it must be a whole number between 1 and {most}")))
}

fn number(keys: &Map<String, Value>, key: &str) -> Result<Option<f64>> {
    match keys.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64() {
            Some(number) => Ok(Some(number)),
            None => Err(Error::format(format!("`{key}` is {value}, not a number"))),
        },
    }
}

/// Attention scores are divided by the root of a head's width, whatever `query_pre_attn_scalar` is.
pub(super) fn check_query_scale(config: &mut FamilyConfig) -> Result<()> {
    let scalar = number(&config.keys, "query_pre_attn_scalar")?.unwrap_or(0.0);
    match scalar == config.head_dim as f64 {
        true => Ok(()),
        false => Err(not_computed("query_pre_attn_scalar", scalar, &config.head_dim.to_string())),
    }
}

/// One layer in every so many has no window.
pub(super) fn gemma3(config: &mut FamilyConfig) -> Result<()> {
    check_query_scale(config)?;
    // With several heads, the cache of its layers without a window takes several tokens only in another order.
    if config.n_kv_head > 1 {
        config.prefill = 1;
    }
    let pattern = match config.keys.get("layer_types") {
        None | Some(Value::Null) => {
            let name = ["sliding_window_pattern", "_sliding_window_pattern"];
            match name.into_iter().find(|name| config.keys.contains_key(*name)) {
                Some(name) => size(&config.keys, name, usize::MAX)?,
                None => 6,
            }
        }
        Some(types) => {
            let sliding = sliding_layers(types, config.n_layer)?;
            let pattern = 1 + sliding.iter().position(|sliding| !sliding).unwrap_or(config.n_layer);
            let regular = |(layer, sliding): (usize, &bool)| *sliding != (layer + 1).is_multiple_of(pattern);
            if !sliding.iter().enumerate().all(regular) {
                return Err(not_computed("layer_types", types, "one full_attention after a fixed number of others"));
            }
            pattern
        }
    };
    config.keys.insert("sliding_window_pattern".to_owned(), pattern.into());
    Ok(())
}

/// candle-transformers' model has a window whether or not it is switched on.
pub(super) fn qwen2(config: &mut FamilyConfig) -> Result<()> {
    config.keys.insert("sliding_window".to_owned(), config.context_len.into());
    Ok(())
}

/// The list of layers without positions, where there is one, is as long as the model.
pub(super) fn smollm3(config: &mut FamilyConfig) -> Result<()> {
    size(&config.keys, "no_rope_layer_interval", usize::MAX)?;
    let layers = config.keys.get("no_rope_layers").and_then(Value::as_array).map_or(0, Vec::len);
    match layers {
        0 => drop(config.keys.remove("no_rope_layers")),
        layers if layers != config.n_layer => {
            return Err(Error::format(format!("there are {layers} `no_rope_layers` for {} layers", config.n_layer)));
        }
        _ => {}
    }
    Ok(())
}

/// Without `use_cache`, there is no cache.
pub(super) fn stablelm(config: &mut FamilyConfig) -> Result<()> {
    config.keys.insert("use_cache".to_owned(), true.into());
    Ok(())
}

const MULTIPLIERS: [&str; 4] =
    ["embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"];

/// A Granite's multipliers are positive.
pub(super) fn check_multipliers(config: &mut FamilyConfig) -> Result<()> {
    for key in MULTIPLIERS {
        if let Some(value) = number(&config.keys, key)?.filter(|value| !(1e-9..=1e9).contains(value)) {
            return Err(Error::format(format!("`{key}` is {value}; it must lie between 1e-9 and 1e9")));
        }
    }
    Ok(())
}

/// candle-transformers computes a Granite without its multipliers, that is, a Llama. They go into the weights: what a
/// layer adds to the hidden state comes out of `o_proj` and `down_proj`, attention scores grow with queries, and
/// logits with the last norm. A tied head has the embedding's factor, which that norm takes back.
pub(super) fn granite_factor(config: &FamilyConfig, tensor: &str) -> f64 {
    let [embedding, attention, residual, logits] =
        MULTIPLIERS.map(|key| config.keys.get(key).and_then(Value::as_f64).unwrap_or(1.0));
    match tensor {
        "model.embed_tokens.weight" => embedding,
        "model.norm.weight" if config.tie_word_embeddings => 1.0 / (logits * embedding),
        "model.norm.weight" => 1.0 / logits,
        _ if tensor.ends_with(".q_proj.weight") => attention * (config.head_dim as f64).sqrt(),
        _ if tensor.ends_with(".o_proj.weight") || tensor.ends_with(".down_proj.weight") => residual,
        _ => 1.0,
    }
}
