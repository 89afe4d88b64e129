//! `config.json` of a GPT-2 model, as Hugging Face writes it.

use serde::Deserialize;
use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::source::ModelFile;

/// The shape of a GPT-2 model and the few choices that its variants make.
///
/// Source: `GPT2Config` in transformers `models/gpt2/configuration_gpt2.py`.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpt2Config {
    /// Number of different tokens.
    pub vocab_size: usize,
    /// Longest sequence, in tokens.
    pub n_positions: usize,
    /// Width of the hidden state.
    pub n_embd: usize,
    /// Transformer blocks.
    pub n_layer: usize,
    /// Attention heads of a block; divides `n_embd`.
    pub n_head: usize,
    /// Width inside the feed-forward part.
    pub n_inner: usize,
    /// Function between the two matrices of the feed-forward part.
    pub activation: Activation,
    /// Added to the variance in layer norms.
    pub layer_norm_epsilon: f64,
    /// Whether attention scores are divided by the square root of a head's width.
    pub scale_attn_weights: bool,
    /// Whether they are divided by the layer's number (from 1) as well.
    pub scale_attn_by_inverse_layer_idx: bool,
    /// Whether the output matrix is the token embedding.
    pub tie_word_embeddings: bool,
    /// The token that ends a text.
    pub eos_token_id: Option<u32>,
}

/// The function between the two matrices of a feed-forward part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// The approximation with tanh that GPT-2 was trained with: `gelu_new`, `gelu_pytorch_tanh`.
    GeluNew,
    /// The exact function: `gelu`.
    Gelu,
    /// `relu`.
    Relu,
    /// `silu`, also called `swish`.
    Silu,
}

/// The file's own keys; what has a default in transformers has the same one here.
#[derive(Deserialize)]
struct Raw {
    model_type: Option<String>,
    vocab_size: usize,
    #[serde(alias = "n_ctx")]
    n_positions: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_inner: Option<usize>,
    activation_function: Option<String>,
    layer_norm_epsilon: Option<f64>,
    scale_attn_weights: Option<bool>,
    scale_attn_by_inverse_layer_idx: Option<bool>,
    tie_word_embeddings: Option<bool>,
    #[serde(default)]
    eos_token_id: Value,
    quantization_config: Option<Value>,
}

impl Gpt2Config {
    /// Reads and checks a `config.json`.
    ///
    /// # Errors
    /// Not JSON, not a GPT-2 model, a key that is missing or out of range, or a quantized checkpoint.
    pub fn read(file: &ModelFile) -> Result<Self> {
        Self::parse(&file.read()?).context(|| file.to_string())
    }

    fn parse(json: &[u8]) -> Result<Self> {
        let mut keys: serde_json::Map<String, Value> = serde_json::from_slice(json).context(|| "not a JSON object")?;
        // Older files have both names for the same number.
        if keys.contains_key("n_positions") {
            keys.remove("n_ctx");
        }
        match keys.get("model_type").and_then(Value::as_str) {
            None | Some("gpt2") => {}
            Some(other) => {
                return Err(Error::format(format!("a model of type `{other}`")).hint("only GPT-2 models can be loaded"));
            }
        }
        let raw: Raw = serde_json::from_value(Value::Object(keys))
            .map_err(|cause| Error::format(cause.to_string()).hint("is this the config.json of a GPT-2 model?"))?;
        if raw.quantization_config.as_ref().is_some_and(|value| !value.is_null()) {
            return Err(Error::format("the checkpoint is quantized").hint("load the checkpoint in full precision"));
        }
        raw.check()
    }
}

impl Raw {
    fn check(self) -> Result<Gpt2Config> {
        let sizes = [
            ("vocab_size", self.vocab_size, 1 << 24),
            ("n_positions", self.n_positions, 1 << 24),
            ("n_embd", self.n_embd, 1 << 20),
            ("n_layer", self.n_layer, 1 << 12),
            ("n_head", self.n_head, self.n_embd),
            ("n_inner", self.n_inner.unwrap_or(1), 1 << 22),
        ];
        for (name, value, most) in sizes {
            if value == 0 || value > most {
                return Err(Error::format(format!("`{name}` is {value}; it must lie between 1 and {most}")));
            }
        }
        if !self.n_embd.is_multiple_of(self.n_head) {
            return Err(Error::format(format!(
                "`n_embd` {} cannot be divided among `n_head` {} heads",
                self.n_embd, self.n_head
            )));
        }
        debug_assert!(self.model_type.is_none_or(|name| name == "gpt2"));
        Ok(Gpt2Config {
            vocab_size: self.vocab_size,
            n_positions: self.n_positions,
            n_embd: self.n_embd,
            n_layer: self.n_layer,
            n_head: self.n_head,
            n_inner: self.n_inner.unwrap_or(4 * self.n_embd),
            activation: activation(self.activation_function.as_deref().unwrap_or("gelu_new"))?,
            layer_norm_epsilon: self.layer_norm_epsilon.unwrap_or(1e-5),
            scale_attn_weights: self.scale_attn_weights.unwrap_or(true),
            scale_attn_by_inverse_layer_idx: self.scale_attn_by_inverse_layer_idx.unwrap_or(false),
            tie_word_embeddings: self.tie_word_embeddings.unwrap_or(true),
            eos_token_id: token_id(&self.eos_token_id),
        })
    }
}

fn activation(name: &str) -> Result<Activation> {
    match name {
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluNew),
        "gelu" => Ok(Activation::Gelu),
        "relu" => Ok(Activation::Relu),
        "silu" | "swish" => Ok(Activation::Silu),
        other => {
            Err(Error::format(format!("unknown `activation_function` {other:?}")).hint("gelu_new, gelu, relu or silu"))
        }
    }
}

/// A token id, or the first of a list of them.
fn token_id(value: &Value) -> Option<u32> {
    let first = value.as_array().map_or(Some(value), |list| list.first())?;
    u32::try_from(first.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tiny() -> Value {
        json!({ "model_type": "gpt2", "vocab_size": 10, "n_positions": 8, "n_embd": 4, "n_layer": 1, "n_head": 2 })
    }

    fn parsed(changes: Value) -> Result<Gpt2Config> {
        let mut config = tiny();
        for (key, value) in changes.as_object().unwrap() {
            config[key] = value.clone();
        }
        Gpt2Config::parse(config.to_string().as_bytes())
    }

    #[test]
    fn defaults_are_those_of_transformers() {
        let config = parsed(json!({})).unwrap();
        assert_eq!((config.n_inner, config.activation, config.layer_norm_epsilon), (16, Activation::GeluNew, 1e-5));
        assert!(config.scale_attn_weights && config.tie_word_embeddings && !config.scale_attn_by_inverse_layer_idx);
        assert_eq!(config.eos_token_id, None);
        assert_eq!(parsed(json!({ "eos_token_id": [3, 4], "n_ctx": 8 })).unwrap().eos_token_id, Some(3));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = [
            (json!({ "n_embd": 5 }), "cannot be divided"),
            (json!({ "n_layer": 0 }), "`n_layer` is 0"),
            (json!({ "vocab_size": -1 }), "invalid value"),
            (json!({ "model_type": "llama" }), "type `llama`"),
            (json!({ "activation_function": "mish" }), "\"mish\""),
            (json!({ "quantization_config": {} }), "quantized"),
        ];
        for (changes, expected) in wrong {
            let error = parsed(changes).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let mut lacking = tiny();
        lacking.as_object_mut().unwrap().remove("n_head");
        let error = Gpt2Config::parse(lacking.to_string().as_bytes()).unwrap_err();
        assert!(error.to_string().contains("missing field `n_head`"), "{error}");
        assert!(Gpt2Config::parse(b"[1]").is_err());
    }
}
