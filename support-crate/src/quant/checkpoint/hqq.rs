//! HQQ, as transformers and hqq save it.
//!
//! A linear layer has `W_q`: its weights, row after row, in bytes, or as two halves that share bytes; `scale` and `zero`, for
//! each group, zero points being any number; and tensors of one number that say so (`nbits`, `group_size`, `axis`, `shape`).
//! Along axis 1, neighbours are a group; along axis 0, the weights belong to the groups in turn.
//!
//! Source: `HQQLinear.state_dict` and `Quantizer.dequantize` in hqq `core/quantize.py`, `pack_4bit_u8` in
//! `core/bitpack.py`.

use safetensors::Dtype;
use serde::Deserialize;
use serde_json::Value;

use super::names::LeftOut;
use super::packed::{Codes, Values};
use super::{Layout, PackedLayer, Parts, keys};
use crate::error::{Error, Result};

/// Tensors of a layer that say nothing new.
const OTHERS: [&str; 12] = [
    "channel_wise",
    "compute_dtype",
    "encoded_state_dict",
    "offload_meta",
    "optimize",
    "packing",
    "quant_scale",
    "quant_zero",
    "round_zero",
    "stores_quant_config",
    "unpack_view_dtype",
    "view_as_float",
];

/// Its `quant_method`.
pub(super) const METHOD: &str = "hqq";

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hqq {
    bits: u32,
    group_size: usize,
    axis: usize,
    left_out: LeftOut,
}

#[derive(Deserialize)]
struct Keys {
    quant_config: QuantConfig,
    skip_modules: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct QuantConfig {
    weight_quant_params: Weights,
}

#[derive(Deserialize)]
struct Weights {
    nbits: u32,
    group_size: Option<usize>,
    axis: Option<usize>,
    #[serde(default)]
    view_as_float: bool,
}

impl Hqq {
    /// # Errors
    /// A value that is not understood.
    pub fn read(value: &Value) -> Result<Self> {
        let Keys { quant_config: QuantConfig { weight_quant_params: weights }, skip_modules } = keys(value)?;
        let Weights { nbits: bits, group_size, axis, view_as_float } = weights;
        if ![4, 8].contains(&bits) {
            return Err(Error::format(format!("`nbits` is {bits}")).hint("4 and 8 can be read"));
        }
        let axis = axis.unwrap_or(1);
        if axis > 1 || view_as_float {
            return Err(Error::format(format!("`axis` is {axis} and `view_as_float` {view_as_float}"))
                .hint("groups along axis 0 or 1, in bytes, can be read"));
        }
        let group_size = group_size.filter(|&size| size > 0);
        let group_size = group_size.ok_or_else(|| Error::format("`group_size` is 0 or missing"))?;
        Ok(Self { bits, group_size, axis, left_out: LeftOut::new(skip_modules)? })
    }
}

impl Layout for Hqq {
    fn marker(&self) -> &'static str {
        "W_q"
    }

    fn leaves(&self, module: &str) -> bool {
        self.left_out.has(module)
    }

    fn may_leave(&self, module: &str) -> bool {
        self.left_out.may_have(module)
    }

    fn layer(&self, _: &str, [n, k]: [usize; 2], parts: &dyn Parts) -> Result<PackedLayer> {
        let Self { bits, group_size: group, axis, .. } = *self;
        let settings =
            [("nbits", vec![bits as usize]), ("group_size", vec![group]), ("axis", vec![axis]), ("shape", vec![n, k])];
        for (part, expected) in settings {
            if let Some(part) = parts.find(part)? {
                let name = part.name.clone();
                let found = part.whole_numbers(expected.len())?;
                if !found.iter().zip(&expected).all(|(&found, &expected)| usize::try_from(found) == Ok(expected)) {
                    return Err(Error::format(format!("`{name}` is {found:?}, expected {expected:?}")));
                }
            }
        }
        // What else it says follows from these, or is about how it was made.
        OTHERS.iter().try_for_each(|part| parts.find(part).map(drop))?;
        let groups = (n * k).div_ceil(group);
        let along_row = axis == 1;
        let (is_whole, lines) =
            if along_row { (k.is_multiple_of(group), groups) } else { (n * k == groups * group, group) };
        if !is_whole || !(lines * bits as usize).is_multiple_of(8) || (bits == 4 && !n.is_multiple_of(2)) {
            return Err(Error::format(format!("{n} rows of {k} weights are not whole groups of {group}, or not even")));
        }
        let bytes = parts.get("W_q")?.bytes_of(&[Dtype::U8], &[lines * bits as usize / 8, n * k / lines])?;
        let codes = if bits == 8 { Codes::Rows { bytes, bits: 8, row_bytes: k } } else { Codes::Halves { bytes, k } };
        let codes = (codes, Values::Whole(bits));
        let shape = if along_row { [groups, 1] } else { [1, groups] };
        let of_groups = |part: &str| parts.get(part)?.floats(&[&shape]);
        let (scales, zeros) = (of_groups("scale")?, of_groups("zero")?);
        if along_row {
            PackedLayer::new([n, k], codes, [1, group], scales, zeros)
        } else {
            PackedLayer::in_turn([n, k], codes, scales, zeros)
        }
    }

    fn groups(&self) -> Vec<Option<usize>> {
        if self.bits == 4 && self.axis == 1 { vec![Some(self.group_size)] } else { Vec::new() }
    }
}

impl std::fmt::Display for Hqq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "hqq of {} bits", self.bits)
    }
}
