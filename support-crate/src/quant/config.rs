//! Which layers of a model are quantized, and how: bitsandbytes' own configuration, and static int8.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Calibration, FourBit, FourBitOptions, LayerCalibration, check_blocksize};
use crate::error::{Context, Error, Result};
use crate::precision::Precision;

/// How a model is quantized while it is loaded.
///
/// Mirrors `BitsAndBytesConfig` of transformers (`utils/quantization_config.py`): the same names and
/// defaults, as far as they exist here. `bnb_4bit_blocksize`, `head` and `calibration` are additions.
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
    /// What 4-bit weights are dequantized to, and multiplied with inputs in. bfloat16 rounds both, as bitsandbytes
    /// does, which rounds the sums too; where the processor has an instruction for it, many rows of inputs take
    /// half the time. float32 rounds nothing. On the CPU, float16 is taken as float32, and the engines `tch` and
    /// `candle` always compute in float32; on a GPU, in the precision of the model.
    pub bnb_4bit_compute_dtype: Precision,
    /// Weights that share a scale: a power of two from 32 to 4096. Always 64 in transformers.
    pub bnb_4bit_blocksize: usize,
    /// What becomes of the head, which transformers leaves in the precision of the model.
    pub head: Head,
    /// Static int8: the inputs of 8-bit layers are quantized by these scales. Without them, every token
    /// has a scale of its own, found while computing.
    pub calibration: Option<Calibration>,
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
pub enum LayerFormat<'a> {
    /// Blocks of 4-bit weights.
    FourBit {
        /// The format.
        options: FourBitOptions,
        /// What products are computed in.
        compute_dtype: Precision,
    },
    /// Rows of 8-bit weights, inputs of 8 bits.
    Int8 {
        /// Input columns that reach this size are kept; 0 for none.
        threshold: f32,
    },
    /// Rows of 8-bit weights, inputs of 8 bits by scales fixed beforehand.
    StaticInt8(&'a LayerCalibration),
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
            calibration: None,
        }
    }
}

impl QuantizationConfig {
    /// `load_in_8bit=True`
    pub fn int8() -> Self {
        Self { load_in_8bit: true, ..Self::default() }
    }

    /// Weights of 8 bits, and inputs of 8 bits by the scales of a calibration
    /// ([`calibrate`](crate::model::calibrate)). bitsandbytes has nothing like it.
    pub fn static_int8(calibration: Calibration) -> Self {
        Self { llm_int8_threshold: 0.0, calibration: Some(calibration), ..Self::int8() }
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
    ///
    /// # Errors
    /// Static int8, which bitsandbytes does not have: it would read the weights as those of another format.
    pub fn to_json(&self) -> Result<Value> {
        if self.calibration.is_some() {
            return Err(Error::input(
                "`calibration`: bitsandbytes has no static int8, so a config.json cannot express it",
            )
            .hint("keep the model in full precision, and quantize it while it is loaded"));
        }
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
        Ok(Value::Object(keys))
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
    /// Both or neither of 4 and 8 bits, a threshold below 0, a calibration together with 4 bits or a threshold,
    /// a block size that [`check_blocksize`] refuses.
    pub fn check(&self) -> Result<()> {
        if self.load_in_4bit == self.load_in_8bit {
            return Err(Error::input(format!("`load_in_4bit` and `load_in_8bit` are both {}", self.load_in_4bit))
                .hint("set one of them, or take `QuantizationConfig::nf4()`, `fp4()` or `int8()`"));
        }
        if !(self.llm_int8_threshold >= 0.0 && self.llm_int8_threshold.is_finite()) {
            return Err(Error::input(format!("`llm_int8_threshold` is {}", self.llm_int8_threshold))
                .hint("a size that inputs reach, 6 in the paper, or 0 for no threshold"));
        }
        if self.calibration.is_some() && (self.load_in_4bit || self.llm_int8_threshold > 0.0) {
            return Err(Error::input("`calibration` goes with neither `load_in_4bit` nor `llm_int8_threshold`")
                .hint("take `QuantizationConfig::static_int8(calibration)`"));
        }
        check_blocksize(self.bnb_4bit_blocksize)
    }

    /// How the layer of this name is quantized; `None` if it is not. The head is called `lm_head`.
    ///
    /// # Errors
    /// Static int8, of a layer that the calibration does not have.
    pub fn layer(&self, module: &str) -> Result<Option<LayerFormat<'_>>> {
        match (module, self.head) {
            ("lm_head", Head::AsLoaded) => Ok(None),
            ("lm_head", Head::Int8) => Ok(Some(LayerFormat::Int8 { threshold: 0.0 })),
            ("lm_head", Head::AsLayers) => self.format(module).map(Some),
            _ if self.skips(module) => Ok(None),
            _ => self.format(module).map(Some),
        }
    }

    fn format(&self, module: &str) -> Result<LayerFormat<'_>> {
        Ok(match &self.calibration {
            Some(calibration) => LayerFormat::StaticInt8(calibration.layer(module)?),
            None if self.load_in_4bit => LayerFormat::FourBit {
                options: FourBitOptions {
                    quant_type: self.bnb_4bit_quant_type,
                    blocksize: self.bnb_4bit_blocksize,
                    double_quant: self.bnb_4bit_use_double_quant,
                },
                compute_dtype: self.bnb_4bit_compute_dtype,
            },
            None => LayerFormat::Int8 { threshold: self.llm_int8_threshold },
        })
    }

    fn skips(&self, module: &str) -> bool {
        self.llm_int8_skip_modules.as_ref().is_some_and(|skipped| names_any(skipped, module))
    }

    /// Makes sure that the names to skip, and the layers of the calibration, are those of a model with these
    /// layers, besides the head.
    ///
    /// # Errors
    /// A name that the model does not have.
    pub fn check_modules(&self, modules: &[String]) -> Result<()> {
        let like = || format!("its layers are called like `{}`", modules.first().map_or("", String::as_str));
        let is_known = |skipped: &String| modules.iter().any(|module| names(skipped, module));
        let mut skipped = self.llm_int8_skip_modules.iter().flatten();
        if let Some(skipped) = skipped.find(|skipped| *skipped != "lm_head" && !is_known(skipped)) {
            return Err(Error::input(format!(
                "`llm_int8_skip_modules` names `{skipped}`, which the model does not have"
            ))
            .hint(like()));
        }
        let mut layers = self.calibration.iter().flat_map(Calibration::layers).map(|calibrated| &calibrated.layer);
        match layers.find(|layer| *layer != "lm_head" && !modules.contains(layer)) {
            None => Ok(()),
            Some(layer) => Err(Error::input(format!(
                "`calibration` has a layer `{layer}`, which the model does not have: it belongs to another model"
            ))
            .hint(like())),
        }
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

/// `nf4`, `fp4, double quantization`, `int8, head int8`, `static int8` ...
impl std::fmt::Display for QuantizationConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.load_in_4bit, &self.calibration) {
            (true, _) => write!(f, "{}", self.bnb_4bit_quant_type)?,
            (false, Some(_)) => f.write_str("static int8")?,
            (false, None) => f.write_str("int8")?,
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
#[path = "config_tests.rs"]
mod tests;
