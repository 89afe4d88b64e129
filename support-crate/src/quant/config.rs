//! Which layers of a model are quantized, and how.

use super::{
    AffineInt4, Calibration, FourBit, FourBitOptions, GptqOptions, Hessians, Rounding, check_blocksize,
    check_threshold, last_code,
};
use crate::error::{Error, Result};
use crate::precision::Precision;

/// How a model is quantized while it is loaded, or how its checkpoint is quantized.
///
/// ```
/// use quantlab::quant::{FourBitOptions, Head, QuantizationConfig};
///
/// let double = FourBitOptions { double_quant: true, ..FourBitOptions::default() };
/// let config = QuantizationConfig { head: Head::Int8, ..QuantizationConfig::four_bit(double) };
/// assert_eq!(config.to_string(), "nf4, double quantization, head int8");
/// assert_eq!("int8".parse::<QuantizationConfig>()?, QuantizationConfig::llm_int8(6.0));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizationConfig {
    /// The method, with its settings.
    pub method: QuantizationMethod,
    /// Modules that stay as they are, by name (`c_attn`, `transformer.h.0`): `llm_int8_skip_modules` of bitsandbytes.
    /// The head always does unless [`head`](Self::head) says otherwise.
    pub skip_modules: Option<Vec<String>>,
    /// What becomes of the head, which transformers leaves in the precision of the model.
    pub head: Head,
    /// The format that weights of 4 bits are dequantized to and multiplied with inputs in (`bnb_4bit_compute_dtype`).
    /// bfloat16 rounds both, as does bitsandbytes, which rounds the sums too; where the processor has an instruction
    /// for it, many rows of inputs take half the time. float32 rounds nothing. On the CPU, float16 is treated as
    /// float32, and the engines `tch` and `candle` always compute in float32; on a GPU, they compute in the precision
    /// of the model. Layers of 8 bits ignore this.
    pub compute_dtype: Precision,
}

/// How weights are quantized. Others will follow.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum QuantizationMethod {
    /// LLM.int8(): weights and inputs of 8 bits (`load_in_8bit`).
    LlmInt8 {
        /// Input columns that reach this magnitude are multiplied in higher precision; 0 for none. Which columns these
        /// are depends on all tokens that are computed together, as in bitsandbytes: with a threshold, a sequence's
        /// numbers can change with its neighbours in a batch and with the cache.
        threshold: f32,
    },
    /// Weights of 8 bits, and inputs of 8 bits by scales that are fixed beforehand.
    StaticInt8(Calibration),
    /// Blocks of 4-bit weights by a codebook (`load_in_4bit`).
    FourBit(FourBitOptions),
    /// Groups of 4-bit weights, each with a scale and a zero point ([`AffineInt4`]).
    Int4 {
        /// Weights of a row that share a scale and a zero point: a multiple of 32.
        group_size: usize,
        /// Whether inputs are rounded to 8 bits as they come, each 32 of a token by their own scale: W4A8. Products are
        /// then of whole numbers, and faster.
        int8_inputs: bool,
        /// Bits of a code: 4, or 3 or 2, which take the memory of 4.
        bits: u32,
        /// How codes are chosen.
        rounding: Rounding,
    },
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

/// All other settings are the defaults of transformers.
impl From<QuantizationMethod> for QuantizationConfig {
    fn from(method: QuantizationMethod) -> Self {
        Self { method, skip_modules: None, head: Head::AsLoaded, compute_dtype: Precision::Float32 }
    }
}

/// What a head in int8 is.
static INT8_HEAD: QuantizationMethod = QuantizationMethod::LlmInt8 { threshold: 0.0 };

impl QuantizationConfig {
    /// `load_in_8bit=True`: LLM.int8() with its usual threshold.
    pub fn int8() -> Self {
        Self::llm_int8(6.0)
    }

    /// LLM.int8() that keeps apart input columns that reach `threshold` (`llm_int8_threshold`); with 0, dynamic int8,
    /// which keeps none apart.
    pub fn llm_int8(threshold: f32) -> Self {
        QuantizationMethod::LlmInt8 { threshold }.into()
    }

    /// Weights of 8 bits, and inputs of 8 bits by the scales of a calibration
    /// ([`calibrate`](crate::model::calibrate)). bitsandbytes has nothing like it.
    pub fn static_int8(calibration: Calibration) -> Self {
        QuantizationMethod::StaticInt8(calibration).into()
    }

    /// `load_in_4bit=True, bnb_4bit_quant_type="nf4"`
    pub fn nf4() -> Self {
        Self::four_bit(FourBitOptions { quant_type: FourBit::Nf4, ..FourBitOptions::default() })
    }

    /// `load_in_4bit=True, bnb_4bit_quant_type="fp4"`
    pub fn fp4() -> Self {
        Self::four_bit(FourBitOptions { quant_type: FourBit::Fp4, ..FourBitOptions::default() })
    }

    /// `load_in_4bit=True` with custom options.
    pub fn four_bit(options: FourBitOptions) -> Self {
        QuantizationMethod::FourBit(options).into()
    }

    /// Affine int4 by rounding to nearest, in groups of `group_size` weights of a row; 128 and 32 are usual.
    pub fn int4(group_size: usize) -> Self {
        Self::affine(4, group_size, Rounding::Nearest)
    }

    /// The same by HQQ, which needs no texts. With 4 bits, models come out closer to full precision; with fewer, measure.
    pub fn hqq(group_size: usize) -> Self {
        Self::affine(4, group_size, Rounding::Hqq)
    }

    /// The same by GPTQ, with what [`hessians`](crate::model::hessians) found in texts.
    pub fn gptq(hessians: Hessians, group_size: usize) -> Self {
        Self::affine(4, group_size, Rounding::Gptq(hessians, GptqOptions::default()))
    }

    /// The same with codes of `bits` bits, 2 to 4, that are chosen in this way.
    ///
    /// ```
    /// use quantlab::quant::{QuantizationConfig, Rounding};
    ///
    /// let config = QuantizationConfig::affine(3, 64, Rounding::Clipping);
    /// assert_eq!(config.to_string(), "int3-64, clipped");
    /// ```
    pub fn affine(bits: u32, group_size: usize, rounding: Rounding) -> Self {
        QuantizationMethod::Int4 { group_size, int8_inputs: false, bits, rounding }.into()
    }

    /// The same with inputs of 8 bits, as llama.cpp computes its formats of 4 bits.
    pub fn w4a8(group_size: usize) -> Self {
        QuantizationMethod::Int4 { group_size, int8_inputs: true, bits: 4, rounding: Rounding::Nearest }.into()
    }

    /// The format's name, with the size of its groups.
    pub(super) fn name(&self) -> String {
        match &self.method {
            QuantizationMethod::LlmInt8 { .. } => "int8".to_owned(),
            QuantizationMethod::StaticInt8(_) => "static int8".to_owned(),
            QuantizationMethod::FourBit(options) => options.quant_type.to_string(),
            QuantizationMethod::Int4 { group_size, int8_inputs: false, bits, .. } => format!("int{bits}-{group_size}"),
            QuantizationMethod::Int4 { group_size, int8_inputs: true, bits, .. } => format!("w{bits}a8-{group_size}"),
        }
    }

    /// Checks that the values are valid.
    ///
    /// # Errors
    /// A threshold below 0, a block size that [`check_blocksize`] refuses, a group size that
    /// [`AffineInt4::check_group`] refuses, codes that do not have 2 to 4 bits.
    pub fn check(&self) -> Result<()> {
        match &self.method {
            QuantizationMethod::LlmInt8 { threshold } => check_threshold(*threshold),
            QuantizationMethod::StaticInt8(_) => Ok(()),
            QuantizationMethod::FourBit(options) => check_blocksize(options.blocksize),
            QuantizationMethod::Int4 { group_size, bits, .. } => {
                last_code(*bits)?;
                AffineInt4::check_group(*group_size)
            }
        }
    }

    /// How the layer of this name is quantized; `None` if it is not. The head is called `lm_head`.
    pub fn layer(&self, module: &str) -> Option<&QuantizationMethod> {
        match (module, self.head) {
            ("lm_head", Head::AsLoaded) => None,
            ("lm_head", Head::Int8) => Some(&INT8_HEAD),
            ("lm_head", Head::AsLayers) => Some(&self.method),
            _ if self.skips(module) => None,
            _ => Some(&self.method),
        }
    }

    fn skips(&self, module: &str) -> bool {
        self.skip_modules.as_ref().is_some_and(|skipped| names_any(skipped, module))
    }

    /// Makes sure that the names to skip, and the layers of a calibration or of Hessians, are those of a model with these
    /// layers, besides the head.
    ///
    /// # Errors
    /// A name that the model does not have.
    pub fn check_modules(&self, modules: &[String]) -> Result<()> {
        let like = || format!("its layers have names like `{}`", modules.first().map_or("", String::as_str));
        let is_known = |skipped: &String| modules.iter().any(|module| names(skipped, module));
        let mut skipped = self.skip_modules.iter().flatten();
        if let Some(skipped) = skipped.find(|skipped| *skipped != "lm_head" && !is_known(skipped)) {
            return Err(
                Error::input(format!("`skip_modules` names `{skipped}`, which the model does not have")).hint(like())
            );
        }
        let (what, layers): (_, Vec<&str>) = match &self.method {
            QuantizationMethod::StaticInt8(calibration) => {
                let layers = calibration.layers().iter();
                ("the calibration has", layers.map(|calibrated| calibrated.layer.as_str()).collect())
            }
            QuantizationMethod::Int4 { rounding: Rounding::Gptq(hessians, _), .. } => {
                ("there is a Hessian of", hessians.layers().collect())
            }
            _ => return Ok(()),
        };
        match layers.iter().find(|&&layer| layer != "lm_head" && !modules.iter().any(|module| module == layer)) {
            None => Ok(()),
            Some(layer) => Err(Error::input(format!(
                "{what} a layer `{layer}`, which the model does not have: it belongs to another model"
            ))
            .hint(like())),
        }
    }
}

pub(super) fn names_any(skipped: &[String], module: &str) -> bool {
    skipped.iter().any(|skipped| names(skipped, module))
}

/// Whether a name to skip means this module.
///
/// Source: `_replace_with_bnb_linear` in `integrations/bitsandbytes.py` of transformers 4; 5 has another rule
/// ([`may_skip`](QuantizationConfig::may_skip)).
fn names(skipped: &str, module: &str) -> bool {
    let last = module.rsplit('.').next();
    skipped == module || Some(skipped) == last || module.contains(&format!("{skipped}."))
}

/// `nf4`, `fp4, double quantization`, `int8, head int8`, `static int8`, `int4-128`, `w4a8-32`, `int3-64, hqq` ...
impl std::fmt::Display for QuantizationConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())?;
        if matches!(self.method, QuantizationMethod::FourBit(FourBitOptions { double_quant: true, .. })) {
            f.write_str(", double quantization")?;
        }
        if let QuantizationMethod::Int4 { rounding, .. } = &self.method {
            f.write_str(rounding.suffix())?;
        }
        match self.head {
            Head::AsLoaded => Ok(()),
            Head::Int8 => f.write_str(", head int8"),
            Head::AsLayers => f.write_str(", head too"),
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
