//! `quantization_config` of a bitsandbytes checkpoint.
//!
//! Source: `BitsAndBytesConfig` in transformers `utils/quantization_config.py`, whose names and defaults these are.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Context, Error, Result};
use crate::precision::Precision;
use crate::quant::config::names_any;
use crate::quant::{FourBit, FourBitOptions, Head, QuantizationConfig, QuantizationMethod};

/// Its `quant_method`.
pub(crate) const METHOD: &str = "bitsandbytes";

/// The file's own keys.
#[derive(Deserialize)]
struct Keys {
    #[serde(default)]
    load_in_8bit: bool,
    #[serde(default)]
    load_in_4bit: bool,
    #[serde(default = "usual_threshold")]
    llm_int8_threshold: f32,
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

fn usual_threshold() -> f32 {
    6.0
}

/// # Errors
/// A value that is not understood, which the error names; both or neither of 4 and 8 bits.
pub(super) fn read(value: &Value) -> Result<QuantizationConfig> {
    let keys = Keys::deserialize(value).map_err(|cause| Error::format(format!("`quantization_config`: {cause}")))?;
    if keys.llm_int8_has_fp16_weight {
        return Err(Error::format("`llm_int8_has_fp16_weight` keeps weights in float16, for training")
            .hint("load the checkpoint in full precision"));
    }
    if let Some(storage) = keys.bnb_4bit_quant_storage.filter(|storage| storage != "uint8") {
        return Err(Error::format(format!("`bnb_4bit_quant_storage` is {storage:?}; only \"uint8\" can be read")));
    }
    let method = match (keys.load_in_4bit, keys.load_in_8bit) {
        (true, false) => QuantizationMethod::FourBit(FourBitOptions {
            quant_type: keys.bnb_4bit_quant_type.map_or(Ok(FourBit::Fp4), |name| name.parse())?,
            double_quant: keys.bnb_4bit_use_double_quant,
            // Always, in transformers; each layer says its own.
            blocksize: 64,
        }),
        (false, true) => QuantizationMethod::LlmInt8 { threshold: keys.llm_int8_threshold },
        (both, _) => return Err(Error::format(format!("`load_in_4bit` and `load_in_8bit` are both {both}"))),
    };
    // An explicit list replaces transformers' default, which is the head.
    let head_is_skipped = keys.llm_int8_skip_modules.as_ref().is_none_or(|skipped| names_any(skipped, "lm_head"));
    let head = match keys.head.as_deref() {
        None if head_is_skipped => Head::AsLoaded,
        None => Head::AsLayers,
        Some("int8") => Head::Int8,
        Some(other) => return Err(Error::format(format!("`head` is {other:?}")).hint("only \"int8\" is supported")),
    };
    let compute_dtype = match keys.bnb_4bit_compute_dtype {
        Some(name) => name.parse().context(|| "`bnb_4bit_compute_dtype`")?,
        None => Precision::Float32,
    };
    Ok(QuantizationConfig { method, skip_modules: keys.llm_int8_skip_modules, head, compute_dtype })
}

/// `None` for a method that bitsandbytes does not have: it would read the weights as those of another format.
pub(super) fn write(config: &QuantizationConfig) -> Option<Value> {
    let (mut four_bit, mut threshold) = (None, usual_threshold());
    match &config.method {
        QuantizationMethod::FourBit(options) => four_bit = Some(*options),
        QuantizationMethod::LlmInt8 { threshold: wanted } => threshold = *wanted,
        _ => return None,
    }
    let (is_four_bit, options) = (four_bit.is_some(), four_bit.unwrap_or_default());
    let quant_type = if is_four_bit { options.quant_type } else { FourBit::Fp4 };
    let mut keys = Map::new();
    let mut set = |name: &str, value: Value| keys.insert(name.to_owned(), value);
    if config.head == Head::Int8 {
        set("head", "int8".into());
    }
    set("_load_in_4bit", is_four_bit.into());
    set("_load_in_8bit", (!is_four_bit).into());
    set("bnb_4bit_compute_dtype", config.compute_dtype.to_string().into());
    set("bnb_4bit_quant_storage", "uint8".into());
    set("bnb_4bit_quant_type", quant_type.to_string().into());
    set("bnb_4bit_use_double_quant", options.double_quant.into());
    set("llm_int8_enable_fp32_cpu_offload", false.into());
    set("llm_int8_has_fp16_weight", false.into());
    set("llm_int8_skip_modules", skipped_with_head(config).into());
    set("llm_int8_threshold", f64::from(threshold).into());
    set("load_in_4bit", is_four_bit.into());
    set("load_in_8bit", (!is_four_bit).into());
    set("quant_method", METHOD.into());
    Some(Value::Object(keys))
}

/// The modules to skip, with the head or without it: a list that leaves it out means that it is quantized.
fn skipped_with_head(config: &QuantizationConfig) -> Option<Vec<String>> {
    let mut skipped = config.skip_modules.clone();
    match (config.head, &mut skipped) {
        (Head::AsLoaded, Some(skipped)) if !names_any(skipped, "lm_head") => skipped.push("lm_head".to_owned()),
        (Head::AsLoaded, _) => (),
        (Head::Int8 | Head::AsLayers, skipped) => skipped.get_or_insert_default().retain(|name| name != "lm_head"),
    }
    skipped
}
