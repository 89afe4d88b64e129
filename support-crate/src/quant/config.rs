//! Which layers of a model are quantized, and how: bitsandbytes' own configuration.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{FourBit, FourBitOptions, check_blocksize};
use crate::error::{Context, Error, Result};
use crate::model::Precision;

/// How a model is quantized while it is loaded.
///
/// Mirrors `BitsAndBytesConfig` of transformers (`utils/quantization_config.py`): the same names and
/// defaults, of what there is here. `bnb_4bit_blocksize` and `head` are additions.
///
/// ```
/// use quantlab::quant::QuantizationConfig;
///
/// let config = QuantizationConfig { bnb_4bit_use_double_quant: true, ..QuantizationConfig::nf4() };
/// assert_eq!(config.to_string(), "nf4, double quantization");
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizationConfig {
    /// LLM.int8(): weights and inputs of 8 bits.
    pub load_in_8bit: bool,
    /// Weights of 4 bits.
    pub load_in_4bit: bool,
    /// Input columns that reach this size are multiplied in higher precision; 0 for none. Which columns these
    /// are depends on all tokens that are computed together, as in bitsandbytes: with a threshold, a
    /// sequence's numbers can change with its neighbours in a batch and with the cache.
    pub llm_int8_threshold: f32,
    /// Modules that stay as they are, by name (`c_attn`, `transformer.h.0`). The head always does unless
    /// [`head`](Self::head) says otherwise.
    pub llm_int8_skip_modules: Option<Vec<String>>,
    /// The 4-bit data type.
    pub bnb_4bit_quant_type: FourBit,
    /// Whether the scales of blocks are quantized too.
    pub bnb_4bit_use_double_quant: bool,
    /// What dequantized weights are multiplied in. Kept for other programs: here it is always float32, which
    /// is no less exact and no slower.
    pub bnb_4bit_compute_dtype: Precision,
    /// Weights that share a scale: a power of two from 32 to 4096. Always 64 in transformers.
    pub bnb_4bit_blocksize: usize,
    /// What becomes of the head, which transformers leaves in the precision of the model.
    pub head: Head,
}

/// What becomes of the head (`lm_head`), the largest matrix of a small model.
///
/// Quantizing it makes decoding faster than any other single step, and changes every logit a little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Head {
    /// As the embeddings are.
    #[default]
    AsLoaded,
    /// 8 bits, with a scale for each token and inputs of 8 bits, without a threshold.
    Int8,
    /// As the other layers are.
    AsLayers,
}

/// How one layer is quantized.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LayerFormat {
    /// Blocks of 4-bit weights.
    FourBit(FourBitOptions),
    /// Rows of 8-bit weights, inputs of 8 bits.
    Int8 {
        /// Input columns that reach this size are kept; 0 for none.
        threshold: f32,
    },
}

impl Default for QuantizationConfig {
    fn default() -> Self {
        Self {
            load_in_8bit: false,
            load_in_4bit: false,
            llm_int8_threshold: 6.0,
            llm_int8_skip_modules: None,
            bnb_4bit_quant_type: FourBit::Fp4,
            bnb_4bit_use_double_quant: false,
            bnb_4bit_compute_dtype: Precision::Float32,
            bnb_4bit_blocksize: 64,
            head: Head::AsLoaded,
        }
    }
}

impl QuantizationConfig {
    /// `load_in_8bit=True`
    pub fn int8() -> Self {
        Self { load_in_8bit: true, ..Self::default() }
    }

    /// `load_in_4bit=True, bnb_4bit_quant_type="nf4"`
    pub fn nf4() -> Self {
        Self { load_in_4bit: true, bnb_4bit_quant_type: FourBit::Nf4, ..Self::default() }
    }

    /// `load_in_4bit=True, bnb_4bit_quant_type="fp4"`
    pub fn fp4() -> Self {
        Self { load_in_4bit: true, ..Self::default() }
    }

    /// Reads `quantization_config` of a `config.json`.
    ///
    /// # Errors
    /// Another method than bitsandbytes, or a value that is not understood, by its name.
    pub fn from_json(value: &Value) -> Result<Self> {
        let keys: Keys = serde_json::from_value(value.clone())
            .map_err(|cause| Error::format(format!("`quantization_config`: {cause}")))?;
        keys.into_config()
    }

    /// The entry for a `config.json`, as transformers writes it. A head in int8 is a key of this library's own,
    /// `head`; a block size other than 64 is in the layers' quant states only.
    pub fn to_json(&self) -> Value {
        let mut keys = Map::new();
        let mut set = |name: &str, value: Value| keys.insert(name.to_owned(), value);
        if self.head == Head::Int8 {
            set("head", "int8".into());
        }
        set("_load_in_4bit", self.load_in_4bit.into());
        set("_load_in_8bit", self.load_in_8bit.into());
        set("bnb_4bit_compute_dtype", self.bnb_4bit_compute_dtype.to_string().into());
        set("bnb_4bit_quant_storage", "uint8".into());
        set("bnb_4bit_quant_type", self.bnb_4bit_quant_type.to_string().into());
        set("bnb_4bit_use_double_quant", self.bnb_4bit_use_double_quant.into());
        set("llm_int8_enable_fp32_cpu_offload", false.into());
        set("llm_int8_has_fp16_weight", false.into());
        set("llm_int8_skip_modules", self.skipped_with_head().into());
        set("llm_int8_threshold", f64::from(self.llm_int8_threshold).into());
        set("load_in_4bit", self.load_in_4bit.into());
        set("load_in_8bit", self.load_in_8bit.into());
        set("quant_method", "bitsandbytes".into());
        Value::Object(keys)
    }

    /// The modules to skip, with the head or without it: a list that leaves it out means that it is quantized.
    fn skipped_with_head(&self) -> Option<Vec<String>> {
        let mut skipped = self.llm_int8_skip_modules.clone();
        match (self.head, &mut skipped) {
            (Head::AsLoaded, Some(skipped)) if !names_any(skipped, "lm_head") => skipped.push("lm_head".to_owned()),
            (Head::AsLoaded, _) => (),
            (Head::Int8 | Head::AsLayers, skipped) => skipped.get_or_insert_default().retain(|name| name != "lm_head"),
        }
        skipped
    }

    /// Makes sure that the values make sense together.
    ///
    /// # Errors
    /// Both or neither of 4 and 8 bits, a threshold below 0, a block size that [`check_blocksize`] refuses.
    pub fn check(&self) -> Result<()> {
        if self.load_in_4bit == self.load_in_8bit {
            return Err(Error::input(format!("`load_in_4bit` and `load_in_8bit` are both {}", self.load_in_4bit))
                .hint("set one of them, or take `QuantizationConfig::nf4()`, `fp4()` or `int8()`"));
        }
        if !(self.llm_int8_threshold >= 0.0 && self.llm_int8_threshold.is_finite()) {
            return Err(Error::input(format!("`llm_int8_threshold` is {}", self.llm_int8_threshold))
                .hint("a size that inputs reach, 6 in the paper, or 0 for no threshold"));
        }
        check_blocksize(self.bnb_4bit_blocksize)
    }

    /// How the layer of this name is quantized; `None` if it is not. The head is called `lm_head`.
    pub fn layer(&self, module: &str) -> Option<LayerFormat> {
        let layers = match self.load_in_4bit {
            true => LayerFormat::FourBit(FourBitOptions {
                quant_type: self.bnb_4bit_quant_type,
                blocksize: self.bnb_4bit_blocksize,
                double_quant: self.bnb_4bit_use_double_quant,
            }),
            false => LayerFormat::Int8 { threshold: self.llm_int8_threshold },
        };
        match (module, self.head) {
            ("lm_head", Head::AsLoaded) => None,
            ("lm_head", Head::Int8) => Some(LayerFormat::Int8 { threshold: 0.0 }),
            ("lm_head", Head::AsLayers) => Some(layers),
            _ => (!self.skips(module)).then_some(layers),
        }
    }

    fn skips(&self, module: &str) -> bool {
        self.llm_int8_skip_modules.as_ref().is_some_and(|skipped| names_any(skipped, module))
    }

    /// The names to skip that no layer has.
    pub fn unknown_modules(&self, modules: &[String]) -> Vec<String> {
        let known =
            |skipped: &&String| skipped.as_str() == "lm_head" || modules.iter().any(|module| names(skipped, module));
        self.llm_int8_skip_modules.iter().flatten().filter(|skipped| !known(skipped)).cloned().collect()
    }
}

fn names_any(skipped: &[String], module: &str) -> bool {
    skipped.iter().any(|skipped| names(skipped, module))
}

/// Whether a name to skip means this module.
///
/// Source: `_replace_with_bnb_linear` in transformers `integrations/bitsandbytes.py`.
fn names(skipped: &str, module: &str) -> bool {
    let last = module.rsplit('.').next();
    skipped == module || Some(skipped) == last || module.contains(&format!("{skipped}."))
}

/// `nf4`, `fp4, double quantization`, `int8, head int8` ...
impl std::fmt::Display for QuantizationConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.load_in_4bit {
            true => write!(f, "{}", self.bnb_4bit_quant_type)?,
            false => f.write_str("int8")?,
        }
        if self.load_in_4bit && self.bnb_4bit_use_double_quant {
            f.write_str(", double quantization")?;
        }
        match self.head {
            Head::AsLoaded => Ok(()),
            Head::Int8 => f.write_str(", head int8"),
            Head::AsLayers => f.write_str(", head too"),
        }
    }
}

/// The file's own keys.
#[derive(Deserialize)]
struct Keys {
    quant_method: Option<String>,
    #[serde(default)]
    load_in_8bit: bool,
    #[serde(default)]
    load_in_4bit: bool,
    llm_int8_threshold: Option<f32>,
    llm_int8_skip_modules: Option<Vec<String>>,
    #[serde(default)]
    llm_int8_has_fp16_weight: bool,
    bnb_4bit_quant_type: Option<String>,
    #[serde(default)]
    bnb_4bit_use_double_quant: bool,
    bnb_4bit_compute_dtype: Option<String>,
    bnb_4bit_quant_storage: Option<String>,
    head: Option<String>,
}

impl Keys {
    fn into_config(self) -> Result<QuantizationConfig> {
        let default = QuantizationConfig::default();
        if self.quant_method.as_deref().is_some_and(|method| method != "bitsandbytes") {
            return Err(Error::format(format!(
                "a checkpoint quantized with {:?}",
                self.quant_method.unwrap_or_default()
            ))
            .hint("only bitsandbytes checkpoints can be read"));
        }
        if self.llm_int8_has_fp16_weight {
            return Err(Error::format("`llm_int8_has_fp16_weight` keeps weights in float16, for training")
                .hint("load the checkpoint in full precision"));
        }
        if self.bnb_4bit_quant_storage.as_deref().is_some_and(|storage| storage != "uint8") {
            return Err(Error::format(format!(
                "`bnb_4bit_quant_storage` is {:?}; only \"uint8\" can be read",
                self.bnb_4bit_quant_storage.unwrap_or_default()
            )));
        }
        let quant_type = match &self.bnb_4bit_quant_type {
            Some(name) => name.parse()?,
            None => default.bnb_4bit_quant_type,
        };
        let compute_dtype = match &self.bnb_4bit_compute_dtype {
            Some(name) => name.parse().context(|| "`bnb_4bit_compute_dtype`")?,
            None => default.bnb_4bit_compute_dtype,
        };
        // A list of one's own replaces transformers' default, which is the head.
        let head_is_skipped = self.llm_int8_skip_modules.as_ref().is_none_or(|skipped| names_any(skipped, "lm_head"));
        let head = match self.head.as_deref() {
            None if head_is_skipped => Head::AsLoaded,
            None => Head::AsLayers,
            Some("int8") => Head::Int8,
            Some(other) => return Err(Error::format(format!("`head` is {other:?}")).hint("only \"int8\" is known")),
        };
        let config = QuantizationConfig {
            head,
            bnb_4bit_compute_dtype: compute_dtype,
            load_in_8bit: self.load_in_8bit,
            load_in_4bit: self.load_in_4bit,
            llm_int8_threshold: self.llm_int8_threshold.unwrap_or(default.llm_int8_threshold),
            llm_int8_skip_modules: self.llm_int8_skip_modules,
            bnb_4bit_quant_type: quant_type,
            bnb_4bit_use_double_quant: self.bnb_4bit_use_double_quant,
            ..default
        };
        config.check()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for config in [
            QuantizationConfig::int8(),
            QuantizationConfig::nf4(),
            QuantizationConfig {
                bnb_4bit_use_double_quant: true,
                llm_int8_skip_modules: Some(vec!["lm_head".to_owned(), "c_proj".to_owned()]),
                ..QuantizationConfig::fp4()
            },
            QuantizationConfig {
                head: Head::AsLayers,
                llm_int8_skip_modules: Some(vec!["c_proj".to_owned()]),
                ..QuantizationConfig::int8()
            },
            QuantizationConfig { head: Head::Int8, llm_int8_skip_modules: Some(vec![]), ..QuantizationConfig::nf4() },
        ] {
            assert_eq!(QuantizationConfig::from_json(&config.to_json()).unwrap(), config);
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (value, expected) in [
            (json!({ "quant_method": "gptq", "bits": 4 }), "\"gptq\""),
            (json!({ "load_in_4bit": true, "bnb_4bit_quant_type": "nf3" }), "nf3"),
            (json!({ "load_in_4bit": true, "load_in_8bit": true }), "both true"),
            (json!({}), "both false"),
            (json!({ "load_in_8bit": true, "llm_int8_threshold": -1.0 }), "`llm_int8_threshold` is -1"),
            (json!({ "load_in_8bit": 3 }), "`quantization_config`"),
            (json!({ "load_in_8bit": true, "head": "int4" }), "`head` is \"int4\""),
            (json!({ "load_in_4bit": true, "bnb_4bit_quant_storage": "bfloat16" }), "bnb_4bit_quant_storage"),
        ] {
            let error = QuantizationConfig::from_json(&value).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
        let config = QuantizationConfig { bnb_4bit_blocksize: 48, ..QuantizationConfig::nf4() };
        assert!(config.check().unwrap_err().to_string().contains("48"));
    }

    #[test]
    fn layers_are_skipped_by_their_names() {
        let skip = |names: &[&str]| QuantizationConfig {
            llm_int8_skip_modules: Some(names.iter().map(|&name| name.to_owned()).collect()),
            ..QuantizationConfig::nf4()
        };
        let layer = "transformer.h.1.attn.c_attn";
        assert!(skip(&[]).layer(layer).is_some() && skip(&[]).layer("lm_head").is_none());
        assert!(skip(&[layer]).layer(layer).is_none());
        assert!(skip(&["transformer.h.1"]).layer(layer).is_none());
        assert!(skip(&["attn"]).layer(layer).is_none() && skip(&["c_attn"]).layer(layer).is_none());
        assert!(skip(&["transformer.h.10"]).layer(layer).is_some());
        let modules = [layer.to_owned()];
        assert_eq!(skip(&["attn", "mlp", "lm_head"]).unknown_modules(&modules), ["mlp"]);
    }

    #[test]
    fn the_head_is_an_option() {
        let head = |head| QuantizationConfig { head, ..QuantizationConfig::nf4() }.layer("lm_head");
        assert_eq!(head(Head::AsLoaded), None);
        assert_eq!(head(Head::Int8), Some(LayerFormat::Int8 { threshold: 0.0 }));
        assert!(matches!(head(Head::AsLayers), Some(LayerFormat::FourBit(_))));
    }
}
