//! Checkpoints that others quantized: what their `quantization_config` says, and which tensors a layer has.
//!
//! A file for each `quant_method`: it reads the JSON, names a layer's tensors, and says where codes, scales and zero
//! points lie in them. All become one form, [`PackedLayer`]. Affine int4 in groups that kernels can take stays packed;
//! anything else is restored to the precision of the model while it is loaded, and can then be quantized anew.

mod awq;
mod bitsandbytes;
mod compressed_tensors;
mod fp8;
mod gptq;
mod hqq;
mod names;
mod packed;
mod parts;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::QuantizationConfig;
use super::config::names_any;
use crate::error::{Error, Result};
pub(super) use bitsandbytes::METHOD as BITSANDBYTES;
pub(super) use compressed_tensors::METHOD as COMPRESSED_TENSORS;
use names::LeftOut;
pub(crate) use packed::PackedLayer;
pub(crate) use parts::{Part, Parts};

/// A layout of checkpoints that are read.
#[derive(Debug)]
pub struct CheckpointFormat {
    /// `quant_method`, and `format` where one has several.
    pub name: &'static str,
    /// `quant_method` in `quantization_config`.
    pub quant_method: &'static str,
    /// Bits of a weight that are read.
    pub bits: &'static [u32],
    /// What shares a scale.
    pub group: &'static str,
    /// Those of the bits that every engine multiplies as they are stored, in groups of a multiple of 32 weights. Others
    /// are restored to the precision of the model.
    pub kept: &'static [u32],
    /// Whether [`save_pretrained`](crate::model::Loaded::save_pretrained) writes it.
    pub written: bool,
}

/// Every layout that is read.
pub const CHECKPOINTS: [CheckpointFormat; 10] = [
    format("bitsandbytes", "bitsandbytes", (&[4, 8], &[4, 8]), "blocks of 64; a row of 8 bits", true),
    format("gptq", "gptq", (&[2, 3, 4, 8], &[4]), "groups of a row, in the order of columns or another; a row", false),
    format("awq", "awq", (&[4], &[4]), "groups of a row; a row", false),
    format("compressed-tensors pack-quantized", COMPRESSED_TENSORS, (&[2, 4, 8], &[4]), "groups of a row; a row", true),
    format("compressed-tensors int-quantized", COMPRESSED_TENSORS, (&[4, 8], &[]), "groups; a row; the matrix", false),
    format("compressed-tensors float-quantized", COMPRESSED_TENSORS, (&[8], &[]), "blocks; a row; the matrix", false),
    format("compressed-tensors nvfp4-pack-quantized", COMPRESSED_TENSORS, (&[4], &[]), "groups of 16 of a row", false),
    format("compressed-tensors mxfp4-pack-quantized", COMPRESSED_TENSORS, (&[4], &[]), "groups of 32 of a row", false),
    format("fp8", "fp8", (&[8], &[]), "blocks of 128 x 128; the matrix", false),
    format("hqq", "hqq", (&[4, 8], &[4]), "groups of a row; of weights in turn", false),
];

const fn format(
    name: &'static str,
    quant_method: &'static str,
    (bits, kept): (&'static [u32], &'static [u32]),
    group: &'static str,
    written: bool,
) -> CheckpointFormat {
    CheckpointFormat { name, quant_method, bits, group, kept, written }
}

/// How the layers of a checkpoint are stored, other than by bitsandbytes: `quantization_config` of its `config.json`.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint(Method);

#[derive(Debug, Clone, PartialEq)]
enum Method {
    Gptq(gptq::Gptq),
    Awq(awq::Awq),
    CompressedTensors(compressed_tensors::CompressedTensors),
    Fp8(fp8::Fp8),
    Hqq(hqq::Hqq),
}

/// What a layout says of the layers.
trait Layout {
    /// The tensor that every quantized layer has, and no other.
    fn marker(&self) -> &'static str;

    /// Whether the layer of this name is to be left as it is.
    fn leaves(&self, module: &str) -> bool;

    /// Whether it can be meant by what its package takes for a list of layers to leave.
    fn may_leave(&self, module: &str) -> bool {
        self.leaves(module)
    }

    /// A layer (n, k) from its tensors.
    ///
    /// # Errors
    /// Tensors that are missing, have another type or shape, or contradict each other.
    fn layer(&self, module: &str, shape: [usize; 2], parts: &dyn Parts) -> Result<PackedLayer>;

    /// The sizes of its groups of 4-bit integers; `None` for a whole row.
    fn groups(&self) -> Vec<Option<usize>>;
}

impl Checkpoint {
    /// Reads `quantization_config`; nothing if it is one of bitsandbytes.
    ///
    /// # Errors
    /// A `quant_method` that cannot be read, or a value that is not understood; the error names it.
    pub(crate) fn read(value: &Value) -> Result<Option<Self>> {
        let method = value.get("quant_method").and_then(Value::as_str).unwrap_or(BITSANDBYTES);
        let read = match method {
            BITSANDBYTES => return Ok(None),
            gptq::METHOD => gptq::Gptq::read(value).map(Method::Gptq),
            awq::METHOD => awq::Awq::read(value).map(Method::Awq),
            COMPRESSED_TENSORS => compressed_tensors::CompressedTensors::read(value).map(Method::CompressedTensors),
            fp8::METHOD => fp8::Fp8::read(value).map(Method::Fp8),
            hqq::METHOD => hqq::Hqq::read(value).map(Method::Hqq),
            other => {
                let mut known: Vec<_> = CHECKPOINTS.iter().map(|format| format.quant_method).collect();
                known.dedup();
                return Err(Error::format(format!("checkpoints quantized with {other:?} are not supported"))
                    .hint(format!("checkpoints of {} can be read", known.join(", "))));
            }
        };
        read.map(|method| Some(Self(method)))
            .map_err(|error| error.context(format!("`quantization_config` of {method:?}")))
    }

    fn layout(&self) -> &dyn Layout {
        match &self.0 {
            Method::Gptq(layout) => layout,
            Method::Awq(layout) => layout,
            Method::CompressedTensors(layout) => layout,
            Method::Fp8(layout) => layout,
            Method::Hqq(layout) => layout,
        }
    }

    /// The tensor that every quantized layer has, and no other: `qweight`.
    pub(crate) fn marker(&self) -> &'static str {
        self.layout().marker()
    }

    /// Makes sure that a layer without quantized tensors is one that is to be left as it is.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn check_left(&self, module: &str) -> Result<()> {
        if self.layout().may_leave(module) {
            return Ok(());
        }
        Err(Error::format(format!(
            "layer `{module}` has no tensor `{}`, though `quantization_config` does not leave it out",
            self.marker()
        ))
        .hint("the checkpoint is damaged, or its config.json belongs to another model"))
    }

    /// A layer from its tensors.
    ///
    /// # Errors
    /// Tensors that are missing or contradict each other or the config; a layer that is to be left as it is.
    pub(crate) fn layer(&self, module: &str, shape: [usize; 2], parts: &dyn Parts) -> Result<PackedLayer> {
        if self.layout().leaves(module) {
            return Err(Error::format("its tensors are quantized, though `quantization_config` leaves it out")
                .hint("config.json and the weights may belong to different models"));
        }
        self.layout().layer(module, shape, parts)
    }

    /// The size of groups in which layers with rows of these lengths stay packed: one that divides all that the
    /// checkpoint has. `None` if there is no such size that kernels can take.
    pub(crate) fn int4_group(&self, rows: &[usize]) -> Option<usize> {
        let common = |sizes: &mut dyn Iterator<Item = usize>| sizes.reduce(greatest_common_divisor);
        let of_rows = common(&mut rows.iter().copied())?;
        let group = common(&mut self.layout().groups().into_iter().map(|group| group.unwrap_or(of_rows)))?;
        Some(group).filter(|group| *group > 0 && group.is_multiple_of(32))
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// `gptq of 4 bits`, `compressed-tensors float-quantized` ...
impl std::fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Method::Gptq(layout) => write!(f, "{layout}"),
            Method::Awq(_) => f.write_str("awq of 4 bits"),
            Method::CompressedTensors(layout) => write!(f, "{layout}"),
            Method::Fp8(layout) => write!(f, "{layout}"),
            Method::Hqq(layout) => write!(f, "{layout}"),
        }
    }
}

impl QuantizationConfig {
    /// Reads `quantization_config` of a `config.json` of bitsandbytes.
    ///
    /// # Errors
    /// Another `quant_method`, or a value that is not understood; the error names it.
    pub fn from_json(value: &Value) -> Result<Self> {
        let config = match value.get("quant_method").and_then(Value::as_str) {
            None | Some(BITSANDBYTES) => bitsandbytes::read(value)?,
            Some(other) => {
                return Err(Error::format(format!("{other:?} is not the format of a `QuantizationConfig`"))
                    .hint("load the checkpoint; what its layers became is in `Loaded::quantization`"));
            }
        };
        config.check()?;
        Ok(config)
    }

    /// The entry for a `config.json`: as transformers writes it for bitsandbytes, or as compressed-tensors writes it for
    /// affine int4. A head in int8 is a key of this library's own, `head`; a block size other than 64 is in the layers'
    /// quant states only; what affine int4 is computed in, and that its codes have fewer bits than 4, is nowhere.
    ///
    /// # Errors
    /// A format that no checkpoint has.
    pub fn to_json(&self) -> Result<Value> {
        self.json(false)
    }

    /// The same for a model that was saved as these tensors, by name and shape: it names layers to skip in whole, which
    /// means the same to every version of the packages, and says so if columns are in another order.
    ///
    /// # Errors
    /// As [`to_json`](Self::to_json).
    pub(crate) fn to_json_of(&self, tensors: &[(String, Vec<usize>)]) -> Result<Value> {
        let named = |skipped: &Vec<String>| {
            let matrices = tensors.iter().filter(|(_, shape)| shape.len() == 2);
            let layers = matrices.filter_map(|(name, _)| name.strip_suffix(".weight"));
            layers.filter(|&name| name != "lm_head" && names_any(skipped, name)).map(str::to_owned).collect()
        };
        let named = Self { skip_modules: self.skip_modules.as_ref().map(named), ..self.clone() };
        let mut json = named.json(true)?;
        if tensors.iter().any(|(name, _)| name.ends_with(".weight_g_idx")) {
            json["config_groups"]["group_0"]["weights"]["actorder"] = "group".into();
        }
        Ok(json)
    }

    /// Whether a list of layers to skip can mean this one by the rules of transformers 4, a part of a name, or of 5,
    /// the beginning or the end of one, or a pattern for its beginning.
    ///
    /// Source: `_replace_with_bnb_linear` in `integrations/bitsandbytes.py` of 4.57; `should_convert_module` in
    /// `quantizers/quantizers_utils.py` of 5.24.
    pub(crate) fn may_skip(&self, module: &str) -> bool {
        let mut names = self.skip_modules.iter().flatten();
        names.any(|name| module.contains(name.as_str()))
            || LeftOut::new(self.skip_modules.clone()).is_ok_and(|left_out| left_out.may_have(module))
    }

    /// `in_whole`: no other layer is meant by the names of those to skip.
    fn json(&self, in_whole: bool) -> Result<Value> {
        bitsandbytes::write(self).or_else(|| compressed_tensors::write(self, in_whole)).ok_or_else(|| {
            Error::input(format!("{self}: no checkpoint has such a format, so a config.json cannot express it"))
                .hint("keep the model in full precision, and quantize it while it is loaded")
        })
    }
}

/// The keys of a `quantization_config`.
///
/// # Errors
/// One that is missing or of another type.
fn keys<T: DeserializeOwned>(value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|cause| Error::format(cause.to_string()))
}

/// What a key is that is only written down if it is false.
fn yes() -> bool {
    true
}

/// A size of groups as configs have it: `None` for -1, a whole row.
///
/// # Errors
/// Zero, or another number below it.
fn group_size(size: i64) -> Result<Option<usize>> {
    match usize::try_from(size) {
        Err(_) if size == -1 => Ok(None),
        Ok(size) if size > 0 => Ok(Some(size)),
        _ => {
            Err(Error::format(format!("`group_size` is {size}"))
                .hint("it is a number of weights, or -1 for a whole row"))
        }
    }
}
