//! AWQ, as AutoAWQ saves it for its kernel `gemm`.
//!
//! A linear layer of k inputs and n outputs has `qweight` (k, n / 8), eight outputs in each word in the order 0, 2, 4, 6,
//! 1, 3, 5, 7 from the lowest bits on; `qzeros` (groups, n / 8), likewise; and `scales` (groups, n).
//!
//! Source: `WQLinear_GEMM.from_linear` in AutoAWQ `modules/linear/gemm.py`, `AwqConfig` in transformers.

use safetensors::Dtype;
use serde::Deserialize;
use serde_json::Value;

use super::names::LeftOut;
use super::packed::{Codes, Values, awq_code};
use super::parts::transposed;
use super::{Layout, PackedLayer, Parts, group_size, keys};
use crate::error::{Error, Result};

/// Its `quant_method`.
pub(super) const METHOD: &str = "awq";

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Awq {
    group_size: Option<usize>,
    left_out: LeftOut,
}

#[derive(Deserialize)]
struct Keys {
    #[serde(alias = "w_bit")]
    bits: u32,
    #[serde(alias = "q_group_size")]
    group_size: i64,
    version: Option<String>,
    format: Option<String>,
    #[serde(default = "super::yes")]
    zero_point: bool,
    modules_to_not_convert: Option<Vec<String>>,
}

impl Awq {
    /// # Errors
    /// A value that is not understood.
    pub fn read(value: &Value) -> Result<Self> {
        let keys: Keys = keys(value)?;
        if keys.bits != 4 {
            return Err(Error::format(format!("`bits` is {}", keys.bits)).hint("AWQ has 4"));
        }
        let version = keys.version.or(keys.format).unwrap_or_else(|| "gemm".to_owned());
        if !version.eq_ignore_ascii_case("gemm") || !keys.zero_point {
            let zero_point = if keys.zero_point { "" } else { " without zero points" };
            return Err(Error::format(format!("`version` is {version:?}{zero_point}"))
                .hint("only \"gemm\", with zero points, can be read"));
        }
        Ok(Self { group_size: group_size(keys.group_size)?, left_out: LeftOut::new(keys.modules_to_not_convert)? })
    }
}

impl Layout for Awq {
    fn marker(&self) -> &'static str {
        "qweight"
    }

    fn leaves(&self, module: &str) -> bool {
        self.left_out.has(module)
    }

    fn may_leave(&self, module: &str) -> bool {
        self.left_out.may_have(module)
    }

    fn layer(&self, _: &str, [n, k]: [usize; 2], parts: &dyn Parts) -> Result<PackedLayer> {
        if !n.is_multiple_of(8) {
            return Err(Error::format(format!("{n} outputs of 4 bits do not fill words of 32")));
        }
        let group = self.group_size.unwrap_or(k);
        let groups = k.div_ceil(group);
        let bytes = parts.get("qweight")?.bytes_of(&[Dtype::I32, Dtype::U32], &[k, n / 8])?;
        let stored = parts.get("qzeros")?.bytes_of(&[Dtype::I32, Dtype::U32], &[groups, n / 8])?;
        let zero = |row: usize, group: usize| f32::from(awq_code(&stored, group, n, row));
        let zeros = (0..n).flat_map(|row| (0..groups).map(move |group| (row, group)));
        let zeros = zeros.map(|(row, group)| zero(row, group)).collect();
        let scales = parts.get("scales")?.floats(&[&[groups, n]])?;
        let codes = (Codes::Interleaved { bytes, n }, Values::Whole(4));
        PackedLayer::new([n, k], codes, [1, group], transposed(&scales, n), zeros)
    }

    fn groups(&self) -> Vec<Option<usize>> {
        vec![self.group_size]
    }
}
