//! E4M3 in blocks, as DeepSeek and Qwen publish it and transformers reads it (`FineGrainedFP8Config`).
//!
//! A linear layer has its `weight` in E4M3 and `weight_scale_inv`, which each block of it is multiplied with; despite its
//! name, that is a scale like any other.
//!
//! Source: `weight_dequant` in DeepSeek-V3 `inference/kernel.py`; `Fp8Dequantize` in transformers
//! `integrations/finegrained_fp8.py`.

use safetensors::Dtype;
use serde::Deserialize;
use serde_json::Value;

use super::names::LeftOut;
use super::packed::{Codes, Values};
use super::{Layout, PackedLayer, Parts, keys};
use crate::error::{Error, Result};
use crate::quant::e4m3;

/// Its `quant_method`.
pub(super) const METHOD: &str = "fp8";

/// What transformers takes for one that is not said.
const USUAL_BLOCK: [usize; 2] = [128, 128];

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fp8 {
    /// Rows and columns of a block, if the config says them.
    block: Option<[usize; 2]>,
    left_out: LeftOut,
}

#[derive(Deserialize)]
struct Keys {
    weight_block_size: Option<[usize; 2]>,
    fmt: Option<String>,
    #[serde(alias = "ignored_layers")]
    modules_to_not_convert: Option<Vec<String>>,
}

impl Fp8 {
    /// # Errors
    /// A value that is not understood.
    pub fn read(value: &Value) -> Result<Self> {
        let keys: Keys = keys(value)?;
        if let Some(fmt) = keys.fmt.filter(|fmt| fmt != "e4m3" && fmt != "float8_e4m3fn") {
            return Err(Error::format(format!("`fmt` is {fmt:?}")).hint("only \"e4m3\" can be read"));
        }
        if let Some(block) = keys.weight_block_size.filter(|block| block.contains(&0)) {
            return Err(Error::format(format!("`weight_block_size` is {block:?}")).hint("[128, 128] is usual"));
        }
        Ok(Self { block: keys.weight_block_size, left_out: LeftOut::new(keys.modules_to_not_convert)? })
    }
}

/// A matrix of E4M3.
pub(super) fn e4m3_codes(parts: &dyn Parts, [n, k]: [usize; 2]) -> Result<(Codes, Values)> {
    let bytes = parts.get("weight")?.bytes_of(&[Dtype::F8_E4M3], &[n, k])?;
    Ok((Codes::Rows { bytes, bits: 8, row_bytes: k }, Values::Table((0..=255).map(e4m3).collect())))
}

impl Layout for Fp8 {
    fn marker(&self) -> &'static str {
        "weight_scale_inv"
    }

    fn leaves(&self, module: &str) -> bool {
        self.left_out.has(module)
    }

    fn may_leave(&self, module: &str) -> bool {
        self.left_out.may_have(module)
    }

    fn layer(&self, _: &str, [n, k]: [usize; 2], parts: &dyn Parts) -> Result<PackedLayer> {
        let scales = parts.get("weight_scale_inv")?;
        let is_single = self.block.is_none() && scales.shape.iter().product::<usize>() == 1;
        let [rows, columns] = if is_single { [n, k] } else { self.block.unwrap_or(USUAL_BLOCK) };
        let blocks = [n.div_ceil(rows), k.div_ceil(columns)];
        let shapes: &[&[usize]] = if is_single { &[&[], &[1], &[1, 1]] } else { &[&blocks] };
        PackedLayer::new([n, k], e4m3_codes(parts, [n, k])?, [rows, columns], scales.floats(shapes)?, Vec::new())
    }

    fn groups(&self) -> Vec<Option<usize>> {
        Vec::new()
    }
}

impl std::fmt::Display for Fp8 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.block {
            Some([rows, columns]) => write!(f, "fp8 in blocks of {rows} x {columns}"),
            None => f.write_str("fp8"),
        }
    }
}
